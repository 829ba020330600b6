"""What the soak breaks, with an operator's own tools, and how it looks for what is left behind."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from devenv.demo import rest
from devenv.demo.soakplan import FLIPS
from devenv.demo.stage import ANCHOR, Stage
from devenv.guest import daemons, links, ovn, services, shell, vmrecord
from devenv.guest.paths import NodePaths
from devenv.guest.plan import Node

FILTER = "inet soak"
COOKIES = "cookie=0x6f766e6d69670000/0xffffffffffff0000"
"""All of ovnmig's: they begin with its name."""
STREAM_PORT = 8789
FLIP_EVERY_S = 0.08
Database = dict[str, dict[str, Any]]
"""Rows by table and id."""
Zones = dict[str, set[str]]
"""Names of conntrack zones by chassis."""
VOLATILE = ("nb_cfg", "nb_cfg_timestamp", "sb_cfg", "sb_cfg_timestamp", "hv_cfg", "hv_cfg_timestamp")


def restart_ovn_controller(stage: Stage, chassis: str) -> None:
    """As a package's upgrade does it: what it claims and its flows stay until the new one is there."""
    node = stage.plan.node(chassis)
    pid = daemons.running_pid(daemons.pid_files(node)["ovn-controller"])
    assert pid is not None, f"no ovn-controller runs on {chassis}"
    socket = NodePaths.of(chassis).ovn / f"ovn-controller.{pid}.ctl"
    shell.on_node(chassis, ["ovn-appctl", "-t", str(socket), "exit", "--restart"])
    shell.wait_until("ovn-controller to end", lambda: not links.is_alive(pid), timeout_s=15)
    daemons.start_controller(stage.plan, node)


def kill_service(node: Node) -> None:
    """`kill -9` of the node's ovnmig, and a new one."""
    services.stop_node_service(node, force=True)
    services.start_node_service(node)


def tear_down(chassis: str, addresses: tuple[str, ...]) -> None:
    """The source forgets a VM: every entry that its addresses began, in every zone there."""
    for address in addresses:
        family = "ipv6" if ":" in address else "ipv4"
        # It ends with 1 when there was none.
        with contextlib.suppress(shell.CommandError):
            shell.on_node(chassis, ["conntrack", "-D", "-f", family, "-s", address.split("/")[0]])


@contextlib.contextmanager
def no_entries_to(chassis: str) -> Iterator[None]:
    """No agent's stream reaches this chassis inside the block: a migration there goes on copying."""
    words = f"add table {FILTER}; add chain {FILTER} in {{ type filter hook input priority 0; }}; "
    words += f"add rule {FILTER} in tcp dport {STREAM_PORT} drop"
    shell.on_node(chassis, ["nft", words])
    try:
        yield
    finally:
        shell.on_node(chassis, ["nft", f"delete table {FILTER}"])


def flip(stage: Stage, owner: str, other: str) -> tuple[float, str]:
    """A foreign writer gives the gateway away and back, five times; returns how long that took (seconds) and
    who has the highest priority in the end.

    One ovn-nbctl a flip, begun before the last one has ended, so the order is theirs. Both are members of the
    set; no other UDN is there.
    """
    rows = {
        chassis: ovn.nbctl(
            stage.plan, "--bare", "--columns=_uuid", "find", "Gateway_Chassis", f"chassis_name={chassis}"
        ).strip()
        for chassis in (owner, other)
    }
    began = time.monotonic()
    with ThreadPoolExecutor(FLIPS) as pool:
        done = []
        for number in range(FLIPS):
            words = ("set", "Gateway_Chassis", rows[(other, owner)[number % 2]], f"priority={1000 + number}")
            done.append(pool.submit(ovn.nbctl, stage.plan, *words))
            time.sleep(FLIP_EVERY_S)
    for one in done:
        one.result()
    took_s = time.monotonic() - began
    ranks = {
        chassis: int(ovn.nbctl(stage.plan, "get", "Gateway_Chassis", row, "priority"))
        for chassis, row in rows.items()
    }
    return took_s, max(ranks, key=lambda chassis: ranks[chassis])


def database(stage: Stage) -> Database:
    """Every row of the Northbound database by table and id, without counters that go on by themselves."""
    central = stage.plan.central.name
    socket = f"unix:{NodePaths.of(central).ovn / 'ovnnb_db.sock'}"
    words = ["ovsdb-client", "-f", "json", "--no-headings", "dump", socket, "OVN_Northbound"]
    found: Database = {}
    for line in shell.on_node(central, words).splitlines():
        if not line.strip():
            continue
        table = json.loads(line)
        name = table["caption"].removesuffix(" table")
        rows = [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]
        if name == "Connection":
            rows = []
        found[name] = {
            row["_uuid"][1]: {k: ovn.plain(v) for k, v in row.items() if k not in VOLATILE} for row in rows
        }
    return found


def leftovers(stage: Stage, before: Database, zones: Zones) -> list[str]:
    """What is there beside what was there before, in words: rows, transfers, zones.

    The VM that moved may be where it is: its port stays bound there, as its migration had it.
    """
    found = []
    here = vmrecord.load(ANCHOR)
    after = database(stage)
    for table in sorted(before.keys() | after.keys()):
        old, new = before.get(table, {}), after.get(table, {})
        for row in sorted(old.keys() | new.keys()):
            was = old.get(row)
            if was and table == "Logical_Switch_Port" and was["name"] == here.lsp:
                was = was | {"options": was["options"] | {"requested-chassis": here.on}}
            if plain(was) != plain(new.get(row)):
                found.append(f"{table} {row}: {was} -> {new.get(row)}")
    for node in rest.call("GET", "/v1/nodes")["nodes"]:
        if node["agent_transfers"]:
            found.append(f"{node['chassis']}: {node['agent_transfers']} transfers")
    for chassis, known in zones.items():
        wanted = (known - {here.lsp}) | ({here.lsp} if chassis == here.on else set())
        found += [f"{chassis}: flow {line}" for line in our_flows(chassis)]
        found += [f"{chassis}: conntrack zone {name}" for name in sorted(set(ovn.zones(chassis)) - wanted)]
    return found


def our_flows(chassis: str) -> list[str]:
    """Flows with ovnmig's cookies, on any bridge there."""
    found = []
    for bridge in shell.on_node(chassis, ["ovs-vsctl", "list-br"]).split():
        told = shell.on_node(chassis, ["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", bridge, COOKIES])
        found += [f"{bridge}: {line.strip()}" for line in told.splitlines() if "cookie=" in line]
    return found


def plain(row: Any) -> str:
    """A row in one form: sets and maps have no order."""
    if isinstance(row, dict):
        return json.dumps(
            {k: sorted(v, key=str) if isinstance(v, list) else v for k, v in row.items()}, sort_keys=True
        )
    return json.dumps(row)


def wait_for_none(stage: Stage, before: Database, zones: Zones, timeout_s: float = 30.0) -> list[str]:
    """What is still left behind when that time is over; nothing, as soon as there is nothing."""
    deadline = time.monotonic() + timeout_s
    while (left := leftovers(stage, before, zones)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left
