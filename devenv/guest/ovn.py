"""Questions to OVN and OVS that several modules ask, through their own command line tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devenv.guest.paths import options_file, parse_env
from devenv.guest.plan import Plan, plan_from
from devenv.guest.shell import ClusterError, CommandError, on_node

SYNC_TIMEOUT_S = 20


def current_plan() -> Plan:
    """The plan of the running cluster. Raises ClusterError when there is none."""
    try:
        return plan_from(parse_env(options_file().read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ClusterError("no cluster is up here; start one with: cluster up") from error


def nbctl(plan: Plan, *words: str) -> str:
    """ovn-nbctl on the central node."""
    return on_node(plan.central.name, ["ovn-nbctl", "--timeout=30", *words])


def sbctl(plan: Plan, *words: str) -> str:
    """ovn-sbctl on the central node."""
    return on_node(plan.central.name, ["ovn-sbctl", "--timeout=30", *words])


def rows(plan: Plan, table: str, *columns: str) -> list[dict[str, Any]]:
    """Rows of a Southbound table; sets and maps come as lists and dicts."""
    answer = json.loads(sbctl(plan, "--format=json", f"--columns={','.join(columns)}", "list", table))
    return [
        dict(zip(answer["headings"], (plain(value) for value in row), strict=True)) for row in answer["data"]
    ]


def plain(value: Any) -> Any:
    """OVSDB's JSON notation (`["map", [[k, v]]]`, `["set", [...]]`, `["uuid", x]`) as Python's own."""
    if isinstance(value, list) and len(value) == 2:
        kind, inner = value
        if kind == "map":
            return {plain(key): plain(item) for key, item in inner}
        if kind == "set":
            return [plain(item) for item in inner]
        if kind == "uuid":
            return inner
    return value


def bound_chassis(plan: Plan, lsp: str) -> set[str]:
    """The chassis that have a logical switch port bound, additional ones included."""
    condition = f"logical_port={json.dumps(lsp)}"
    columns = "--columns=chassis,additional_chassis"
    answer = json.loads(sbctl(plan, "--format=json", columns, "find", "Port_Binding", condition))
    ids: set[str] = set()
    for row in answer["data"]:
        for cell in map(plain, row):
            ids.update(cell if isinstance(cell, list) else [cell])
    return {str(row["name"]) for row in rows(plan, "Chassis", "_uuid", "name") if row["_uuid"] in ids}


def chassis_names(plan: Plan) -> set[str]:
    return {str(row["name"]) for row in rows(plan, "Chassis", "name")}


def sync(plan: Plan, timeout_s: int = SYNC_TIMEOUT_S) -> None:
    """Waits until the whole configuration is in force; ClusterError names the chassis where it is not."""
    try:
        on_node(plan.central.name, ["ovn-nbctl", f"--timeout={timeout_s}", "--wait=hv", "sync"])
    except CommandError as error:
        wanted = int(nbctl(plan, "get", "NB_Global", ".", "nb_cfg"))
        private = {
            str(row["name"]): int(row["nb_cfg"]) for row in rows(plan, "Chassis_Private", "name", "nb_cfg")
        }
        late = [name for name, reached in sorted(private.items()) if reached < wanted]
        raise ClusterError(
            f"configuration {wanted} is not in force after {timeout_s} s on: {', '.join(late) or 'northd'}; "
            "is their ovn-controller running and connected?"
        ) from error


def zones(node_name: str) -> dict[str, int]:
    """Conntrack zone numbers by user name, as ovn-controller published them on br-int."""
    answer = json.loads(
        on_node(
            node_name, ["ovs-vsctl", "--format=json", "--columns=external_ids", "list", "Bridge", "br-int"]
        )
    )
    ids: dict[str, str] = plain(answer["data"][0][0])
    prefix = "ct-zone-"
    return {key.removeprefix(prefix): int(value) for key, value in ids.items() if key.startswith(prefix)}


def handler_threads(pid: int) -> int:
    """Upcall handlers of an ovs-vswitchd, counted as threads: what it was told to start proves nothing."""
    names = (path.read_text(encoding="utf-8").strip() for path in Path(f"/proc/{pid}/task").glob("*/comm"))
    return sum(1 for name in names if name.startswith("handler"))
