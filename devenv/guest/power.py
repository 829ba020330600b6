"""A chassis that loses power, and one that comes back: crash and restart of a whole node."""

from __future__ import annotations

from devenv.guest import daemons, links, services, vm, vmrecord
from devenv.guest.daemons import pid_files, start_controller, start_ovs_database, start_switch
from devenv.guest.plan import Node, Plan, PlanError
from devenv.guest.shell import CommandError, on_node


def _chassis(plan: Plan, name: str) -> Node:
    node = plan.node(name)
    if not node.runs_ovs:
        raise PlanError(f"{name} is the central node; only a chassis can be crashed here")
    return node


def crash(plan: Plan, name: str) -> None:
    """All cables out, then `kill -9` of everything on the node; its VMs send and receive nothing more.

    The cables come first: the kernel's datapath goes on forwarding known flows without ovs-vswitchd.
    """
    node = _chassis(plan, name)
    links.set_node_links(node, up=False)
    for pid in links.namespace_pids(name):
        links.kill(pid)
    for machine in map(vmrecord.load, vmrecord.names()):
        # A real VM is a process of the node.
        if machine.on == name and machine.kind == "namespace":
            vm.set_running(machine, machine.port(node), False)


def restart(plan: Plan, name: str) -> None:
    """The node boots: an empty kernel (datapath, connection tracking), its databases, daemons and agent.

    Ports of VMs are gone from the database, as hypervisors remove them at boot.
    """
    node = _chassis(plan, name)
    datapath = ["ovs-dpctl", "del-dp", "ovs-system"]
    tunnel = ["ip", "link", "delete", "genev_sys_6081"]
    for argv in (datapath, tunnel, ["conntrack", "-F"]):
        try:
            on_node(name, argv)
        except CommandError:
            # Not there (another datapath type, no tunnel yet): nothing to forget.
            continue
    for file in pid_files(node).values():
        file.unlink(missing_ok=True)
    services.pid_file(node).unlink(missing_ok=True)
    start_ovs_database(plan, node)
    for machine in map(vmrecord.load, vmrecord.names()):
        on_node(name, ["ovs-vsctl", "--no-wait", "--if-exists", "del-port", "br-int", machine.tap])
    links.set_node_links(node, up=True)
    daemons.wait_for_uptime()
    start_switch(node)
    start_controller(plan, node)
    if plan.services:
        services.start_node_service(node)
