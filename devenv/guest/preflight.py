"""Refuses a cluster that only looks alive. Every cause is named in words.

A kernel without connection tracking zones, or an ovs-vswitchd without upcall handlers, lets chassis register
and tunnels appear while no packet passes. So the last check sends packets through OVN between all chassis.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devenv.guest import daemons, ovn, shell
from devenv.guest.plan import Node, Plan
from devenv.guest.shell import ClusterError, CommandError, in_namespace, on_node

SWITCH = "devenv-preflight"
DEVICE = "pf0"
# RFC 5737 TEST-NET-2: nobody else's inside the nodes' namespaces.
NETWORK_PREFIX = "198.51.100."
SYNC_TIMEOUT_S = 10
ANSWER_TIMEOUT_S = 10.0
FEATURES = ["ovs-appctl", "dpif/show-dp-features", "br-int"]


def check(plan: Plan) -> list[str]:
    """The causes why the cluster is not fit; empty when it is. Later checks need the earlier ones to pass."""
    for stage in (_processes, _cables, _datapaths, _registration, _packets):
        causes = stage(plan)
        if causes:
            return causes
    return []


def _processes(plan: Plan) -> list[str]:
    return [
        f"{node.name}: {daemon} does not run; read its log with: logs {node.name}"
        for node in plan.nodes
        for daemon, file in daemons.pid_files(node).items()
        if daemons.running_pid(file) is None
    ]


def _cables(plan: Plan) -> list[str]:
    causes = []
    for node in plan.nodes:
        for peer, wire in ((node.underlay_peer, "underlay"), (node.provider_peer, "provider network")):
            state = Path(f"/sys/class/net/{peer}/operstate")
            if wire == "provider network" and not node.runs_ovs:
                continue
            if not state.exists() or state.read_text(encoding="ascii").strip() != "up":
                causes.append(f"{node.name}: its cable to the {wire} ({peer}) is missing or down")
    return causes


def _datapaths(plan: Plan) -> list[str]:
    causes = []
    for node in plan.chassis:
        try:
            features = on_node(node.name, FEATURES, timeout_s=ANSWER_TIMEOUT_S)
        except CommandError as error:
            causes.append(f"{node.name}: ovs-vswitchd tells nothing about br-int: {error}")
            continue
        if "CT zone: Yes" not in features:
            causes.append(
                f"{node.name}: the datapath has no conntrack zones (CT zone: No), so OVS refuses OVN's "
                "flows; the kernel needs CONFIG_NF_CONNTRACK_ZONES"
            )
        pid = daemons.running_pid(daemons.pid_files(node)["ovs-vswitchd"])
        if plan.datapath == "system" and (pid is None or ovn.handler_threads(pid) == 0):
            causes.append(
                f"{node.name}: ovs-vswitchd has no upcall handler (n-handler-threads 0), the first packet "
                "of a flow is lost; it was started in the first 10 s of the kernel's life: restart the node"
            )
    return causes


def _registration(plan: Plan) -> list[str]:
    present = ovn.chassis_names(plan)
    missing = [node.name for node in plan.chassis if node.name not in present]
    if missing:
        return [
            f"{name}: not in the Southbound database; read its log/ovn-controller.log" for name in missing
        ]
    try:
        ovn.sync(plan, SYNC_TIMEOUT_S)
    except ClusterError as error:
        return [str(error)]
    return []


def _address(node: Node) -> str:
    return f"{NETWORK_PREFIX}{node.index + 1}"


def _mac(node: Node) -> str:
    return f"02:00:00:00:04:{node.index:02x}"


def _lsp(node: Node) -> str:
    return f"{SWITCH}-{node.index}"


@contextlib.contextmanager
def _test_ports(plan: Plan) -> Iterator[None]:
    """A switch with a stateful ACL and one port on each chassis, gone afterwards whatever happens."""
    words = ["ls-add", SWITCH, "--", "acl-add", SWITCH, "to-lport", "100", "ip4", "allow-related"]
    for node in plan.chassis:
        words += ["--", "lsp-add", SWITCH, _lsp(node)]
        words += ["--", "lsp-set-addresses", _lsp(node), f"{_mac(node)} {_address(node)}"]
    ovn.nbctl(plan, "--if-exists", "ls-del", SWITCH)
    try:
        ovn.nbctl(plan, *words)
        shell.in_parallel(_plug, plan.chassis)
        yield
    finally:
        shell.in_parallel(_unplug, plan.chassis)
        ovn.nbctl(plan, "--if-exists", "ls-del", SWITCH)


def _plug(node: Node) -> None:
    interface = ["--", "set", "Interface", DEVICE, "type=internal", f'mac="{_mac(node)}"']
    interface.append(f"external_ids:iface-id={_lsp(node)}")
    on_node(node.name, ["ovs-vsctl", "--may-exist", "add-port", "br-int", DEVICE, *interface])
    on_node(node.name, ["ip", "link", "set", DEVICE, "addrgenmode", "none"])
    on_node(node.name, ["ip", "addr", "add", f"{_address(node)}/24", "dev", DEVICE])
    on_node(node.name, ["ip", "link", "set", DEVICE, "up"])


def _unplug(node: Node) -> None:
    on_node(node.name, ["ovs-vsctl", "--if-exists", "del-port", "br-int", DEVICE])


def _ping(source: Node, target: Node) -> str | None:
    argv = ["ping", "-n", "-c", "3", "-i", "0.2", "-W", "2", _address(target)]
    try:
        shell.run(in_namespace(source.name, argv), timeout_s=15)
    except CommandError:
        return (
            f"{source.name} -> {target.name}: no packet passes the tunnel (no answer to a ping through OVN)"
        )
    return None


def _packets(plan: Plan) -> list[str]:
    try:
        with _test_ports(plan):
            ovn.sync(plan, SYNC_TIMEOUT_S)
            pairs = [(a, b) for a in plan.chassis for b in plan.chassis if a.index < b.index]
            with ThreadPoolExecutor(max_workers=max(1, len(pairs))) as pool:
                causes = [cause for cause in pool.map(lambda pair: _ping(*pair), pairs) if cause]
            return causes or [
                cause for node in plan.chassis for cause in _zone(node, tracked=len(plan.chassis) > 1)
            ]
    except (ClusterError, CommandError) as error:
        return [f"no test port could be set up: {error}"]


def _zone(node: Node, *, tracked: bool) -> list[str]:
    """The port has a zone, and the ping left an entry in that very zone of the node's kernel."""
    number = ovn.zones(node.name).get(_lsp(node))
    if not number:
        return [f"{node.name}: OVN assigned no connection tracking zone to a bound port"]
    if not tracked:
        return []
    entries = on_node(node.name, ["conntrack", "-L", "--zone", str(number)])
    if NETWORK_PREFIX not in entries:
        return [
            f"{node.name}: the ping is not in connection tracking zone {number}, where OVN's flows put it"
        ]
    return []
