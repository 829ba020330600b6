"""Namespaces, bridges and cables: everything of the cluster that is not a daemon."""

from __future__ import annotations

from pathlib import Path

from devenv.guest import shell
from devenv.guest.plan import (
    INNER_MTU,
    PROVIDER_BRIDGE,
    PROVIDER_LINK,
    UNDERLAY_BRIDGE,
    UNDERLAY_LINK,
    Node,
    Plan,
)
from devenv.guest.shell import ClusterError, CommandError


def ip_batch(lines: list[str], *, namespace: str | None = None) -> None:
    """Many `ip` commands in one process (a process start is dear in the guest). The first failure ends it."""
    argv = ["ip", *(["-netns", namespace] if namespace else []), "-batch", "-"]
    shell.run(argv, stdin="".join(f"{line}\n" for line in lines))


def namespace_exists(name: str) -> bool:
    return (shell.NETNS_DIR / name).exists()


def add_namespace(name: str) -> None:
    """A fresh network namespace with its loopback up."""
    if namespace_exists(name):
        raise ClusterError(f"a network namespace {name!r} exists already; remove what made it first")
    shell.run(["ip", "netns", "add", name])
    ip_batch(["link set lo up"], namespace=name)


def delete_namespace(name: str) -> None:
    """Ends every process in the namespace, then removes it. Nothing to do is fine."""
    if not namespace_exists(name):
        return
    for pid in namespace_pids(name):
        kill(pid)
    shell.run(["ip", "netns", "delete", name])


def namespace_pids(name: str) -> list[int]:
    """The processes in a namespace."""
    return [int(word) for word in shell.run(["ip", "netns", "pids", name]).split()]


def kill(pid: int) -> None:
    """SIGKILL, and waits for the process to be gone (it may still hold its sockets until then)."""
    try:
        shell.run(["kill", "-9", str(pid)])
    except CommandError:
        return
    shell.wait_until(f"process {pid} to end", lambda: not is_alive(pid), timeout_s=5)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _bridge_lines(name: str, mtu: int) -> list[str]:
    # No snooping: without a querier the bridge would hold back neighbour discovery. No address of its own.
    return [
        f"link add {name} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        f"link set {name} addrgenmode none",
        f"link set {name} up",
    ]


def build_switches(plan: Plan) -> None:
    """The two Linux bridges: the underlay, and the provider network's top-of-rack switch."""
    ip_batch(_bridge_lines(UNDERLAY_BRIDGE, plan.underlay_mtu) + _bridge_lines(PROVIDER_BRIDGE, INNER_MTU))


def remove_switches() -> None:
    for bridge in (UNDERLAY_BRIDGE, PROVIDER_BRIDGE):
        if Path(f"/sys/class/net/{bridge}").exists():
            shell.run(["ip", "link", "delete", bridge])


def cable_lines(name: str, namespace: str, peer: str, bridge: str, *, mtu: int, mac: str) -> list[str]:
    """A veth pair: `name` inside the namespace, `peer` a port of a bridge here, without addresses."""
    return [
        f"link add {peer} mtu {mtu} type veth peer name {name} netns {namespace} mtu {mtu} address {mac}",
        f"link set {peer} addrgenmode none",
        f"link set {peer} master {bridge} up",
    ]


def connect_node(plan: Plan, node: Node) -> None:
    """The node's namespace with eth1 on the underlay and, for a chassis, eth2 on the provider network."""
    add_namespace(node.name)
    outside = cable_lines(
        UNDERLAY_LINK,
        node.name,
        node.underlay_peer,
        UNDERLAY_BRIDGE,
        mtu=plan.underlay_mtu,
        mac=node.underlay_mac,
    )
    # nodad: an address in duplicate detection cannot be bound yet, and nobody else is on this wire.
    nodad = " nodad" if node.address.version == 6 else ""
    inside = [
        f"link set {UNDERLAY_LINK} addrgenmode none",
        f"addr add {node.address}/{node.prefix_len} dev {UNDERLAY_LINK}{nodad}",
        f"link set {UNDERLAY_LINK} up",
    ]
    if node.runs_ovs:
        outside += cable_lines(
            PROVIDER_LINK,
            node.name,
            node.provider_peer,
            PROVIDER_BRIDGE,
            mtu=INNER_MTU,
            mac=node.provider_mac,
        )
        inside += [f"link set {PROVIDER_LINK} addrgenmode none", f"link set {PROVIDER_LINK} up"]
    ip_batch(outside)
    ip_batch(inside, namespace=node.name)


def set_node_links(node: Node, up: bool) -> None:
    """Pulls or plugs all cables of a node at their switch end, as a power failure looks from outside."""
    state = "up" if up else "down"
    peers = [node.underlay_peer] + ([node.provider_peer] if node.runs_ovs else [])
    ip_batch([f"link set {peer} {state}" for peer in peers])
