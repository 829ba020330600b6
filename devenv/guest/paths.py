"""Where a running cluster keeps its files, and the per-node environment that makes OVN's tools find them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from devenv.guest.plan import NB_PORT, SB_PORT, Node, Plan

DEFAULT_RUN_DIR = "/run/ovnmig"


def run_dir() -> Path:
    """All state lives here, on a tmpfs: nothing of a cluster outlasts its kernel."""
    return Path(os.environ.get("OVNMIG_RUN") or DEFAULT_RUN_DIR)


def options_file() -> Path:
    """The options `up` was called with, so that later commands speak about the same cluster."""
    return run_dir() / "cluster.env"


def pki_dir() -> Path:
    return run_dir() / "pki"


def vm_file(name: str) -> Path:
    """Names may hold anything: the file name is percent-encoded."""
    return run_dir() / "vms" / f"{quote(name, safe='')}.json"


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Directories of one node."""

    ovs: Path
    ovn: Path
    db: Path
    log: Path

    @classmethod
    def of(cls, node_name: str) -> NodePaths:
        base = run_dir() / node_name
        return cls(ovs=base / "ovs", ovn=base / "ovn", db=base / "db", log=base / "log")

    def make(self) -> None:
        for directory in (self.ovs, self.ovn, self.db, self.log):
            directory.mkdir(parents=True, exist_ok=True)


def node_env_file(node_name: str) -> Path:
    return run_dir() / "nodes" / f"{node_name}.env"


def node_environment(plan: Plan, node: Node) -> dict[str, str]:
    """What a command on that node needs to reach the node's own daemons and the central databases.

    The central node uses the unix sockets, all others the addresses of the underlay.
    """
    paths = NodePaths.of(node.name)
    central = node == plan.central
    environment = {
        "NODE": node.name,
        "NODE_ROLE": node.role.value,
        "NETNS": node.name,
        "OVS_RUNDIR": str(paths.ovs),
        "OVS_DBDIR": str(paths.db),
        "OVS_LOGDIR": str(paths.log),
        "OVN_RUNDIR": str(paths.ovn),
        "OVN_DBDIR": str(paths.db),
        "OVN_LOGDIR": str(paths.log),
        "OVN_NB_DB": f"unix:{paths.ovn}/ovnnb_db.sock" if central else plan.remote(NB_PORT),
        "OVN_SB_DB": f"unix:{paths.ovn}/ovnsb_db.sock" if central else plan.remote(SB_PORT),
    }
    if plan.ssl and not central:
        own = pki_dir() / node.name
        options = f"-p {own}.key -c {own}.crt -C {pki_dir() / 'ca.crt'}"
        environment |= {"OVN_NBCTL_OPTIONS": options, "OVN_SBCTL_OPTIONS": options}
    return environment


def render_env(values: Mapping[str, str]) -> str:
    """KEY=VALUE lines that a shell may source. Raises ValueError for a value with a line break."""
    lines: list[str] = []
    for key, value in values.items():
        if "\n" in value or not key.isidentifier():
            raise ValueError(f"{key}={value!r} does not fit into one line of an environment file")
        lines.append(f"{key}={shlex.quote(value)}\n")
    return "".join(lines)


def parse_env(text: str) -> dict[str, str]:
    """The reverse of `render_env`; empty lines and lines that begin with `#` are skipped."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        words = shlex.split(value)
        if not equals or not key.isidentifier() or len(words) > 1:
            raise ValueError(f"not a KEY=VALUE line: {line!r}")
        values[key] = words[0] if words else ""
    return values


def read_node_env(node_name: str) -> dict[str, str]:
    """The environment of a node of the running cluster. Raises FileNotFoundError for another name."""
    return parse_env(node_env_file(node_name).read_text(encoding="utf-8"))
