"""VMs, stand-ins or real: `python3 -m devenv.guest.vm add|plug|unplug|move|wait|del|list NAME ...`.

A stand-in is a namespace with a bridge `br0` (fixed MAC, the addresses) and one veth port per chassis it may
be on. The ports are isolated from each other, and all but one are disabled: the enabled one is where it runs.
A move enables another and disables the old one, so sockets live on as in a VM whose memory was copied.
Whether OVN binds the port there is a matter of its own, as it is for a VM: `plug` puts the veth into br-int.
A VM of the kind `qemu` is a real one (devenv/guest/qemu.py); it takes the same orders.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from devenv.guest import links, netns, ovn, qemu, shell
from devenv.guest.paths import vm_file
from devenv.guest.plan import INNER_MTU, Plan, PlanError
from devenv.guest.shell import ClusterError, CommandError, on_node
from devenv.guest.vmrecord import Vm, default_mac, load, names, save

BRIDGE = "br0"
# As QEMU announces itself by default: at once, then after 50, 150, 250, 350 ms more.
ANNOUNCE_PAUSES_MS = (50, 150, 250, 350)
# The source's port goes after this one of them, as a hypervisor ends the source VM some 200 ms later.
UNPLUG_AFTER = 1
BOUND_TIMEOUT_S = 30.0


def _checked(plan: Plan, vm: Vm) -> Vm:
    if not vm.name or "/" in vm.name or vm.name in (".", ".."):
        raise PlanError(f"VM name {vm.name!r} cannot name a network namespace")
    if links.namespace_exists(vm.name):
        raise ClusterError(
            f"a network namespace {vm.name!r} exists already; delete that VM or take another name"
        )
    for name in vm.chassis:
        if not plan.node(name).runs_ovs:
            raise PlanError(f"{name} is no chassis: a VM cannot run there")
    if vm.on not in vm.chassis:
        raise PlanError(
            f"the VM is to run on {vm.on}, which is not among its chassis {', '.join(vm.chassis)}"
        )
    networks = [ipaddress.ip_interface(text).network for text in vm.addresses]
    for text in vm.gateways:
        if not any(ipaddress.ip_address(text) in network for network in networks):
            raise PlanError(f"gateway {text} is in none of the VM's networks {', '.join(map(str, networks))}")
    return vm


def add(
    plan: Plan,
    name: str,
    *,
    addresses: Sequence[str],
    gateways: Sequence[str] = (),
    lsp: str | None = None,
    mac: str | None = None,
    chassis: Sequence[str] = (),
    on: str | None = None,
    switch: str | None = None,
    plugged: bool = True,
    kind: str = "namespace",
) -> Vm:
    """Creates a VM and, unless `plugged` is false, plugs it into the chassis it runs on.

    `lsp` defaults to the name, `chassis` to all, `on` to the first of them. With `switch` its logical switch
    port is created there, with its MAC and addresses. Raises PlanError for wrong arguments, before it makes
    anything.
    """
    where = tuple(chassis) or tuple(node.name for node in plan.chassis)
    vm = Vm(
        name=name,
        lsp=lsp or name,
        mac=(mac or default_mac(name)).lower(),
        addresses=tuple(str(ipaddress.ip_interface(text)) for text in addresses),
        gateways=tuple(str(ipaddress.ip_address(text)) for text in gateways),
        chassis=where,
        on=on or where[0],
        kind=kind,
    )
    _checked(plan, vm)
    if switch is not None:
        spec = " ".join([vm.mac, *(text.split("/")[0] for text in vm.addresses)])
        ovn.nbctl(plan, "lsp-add", switch, vm.lsp, "--", "lsp-set-addresses", vm.lsp, spec)
    try:
        (qemu.build if vm.kind == "qemu" else _build)(plan, vm)
    except BaseException:
        _destroy(vm)
        if switch is not None:
            ovn.nbctl(plan, "lsp-del", vm.lsp)
        raise
    save(vm)
    if plugged:
        plug(plan, name, vm.on)
    return vm


def _build(plan: Plan, vm: Vm) -> None:
    links.add_namespace(vm.namespace)
    with netns.entered(vm.namespace):
        # The VM's routes are the ones given here; router advertisements would add others beside them.
        Path("/proc/sys/net/ipv6/conf/default/accept_ra").write_text("0", encoding="ascii")
    inside = [f"link add {BRIDGE} mtu {INNER_MTU} address {vm.mac} type bridge stp_state 0 mcast_snooping 0"]
    inside.append(f"link set {BRIDGE} up")
    disable: list[str] = []
    outside: list[str] = []
    for node in (plan.node(name) for name in vm.chassis):
        port = vm.port(node)
        outside.append(
            f"link add {vm.tap} netns {node.name} mtu {INNER_MTU} type veth "
            f"peer name {port} netns {vm.namespace} mtu {INNER_MTU}"
        )
        inside += [f"link set {port} addrgenmode none", f"link set {port} master {BRIDGE} up"]
        inside.append(f"link set {port} type bridge_slave isolated on")
        if node.name != vm.on:
            disable.append(port)
    for text in vm.addresses:
        nodad = " nodad" if ":" in text else ""
        inside.append(f"addr add {text} dev {BRIDGE}{nodad}")
    inside += [f"route add default via {gateway} dev {BRIDGE}" for gateway in vm.gateways]
    links.ip_batch(outside)
    for node in (plan.node(name) for name in vm.chassis):
        links.ip_batch([f"link set {vm.tap} addrgenmode none", f"link set {vm.tap} up"], namespace=node.name)
    links.ip_batch(inside, namespace=vm.namespace)
    for port in disable:
        set_running(vm, port, False)


def _destroy(vm: Vm) -> None:
    if vm.kind == "qemu":
        qemu.remove(vm)
    else:
        # The ports on the chassis are the other ends of what goes with the namespace.
        links.delete_namespace(vm.namespace)


def set_running(vm: Vm, port: str, running: bool) -> None:
    """Enables or disables one of the VM's ports."""
    opened, index = netns.port_socket(vm.namespace, port)
    opened.close()
    control = netns.BridgeControl(vm.namespace)
    try:
        control.set_state(index, netns.FORWARDING if running else netns.DISABLED, flush=not running)
    finally:
        control.close()


def plug(plan: Plan, name: str, chassis: str) -> None:
    """Puts the VM's port into br-int of that chassis, as a hypervisor does before the VM runs there."""
    vm = load(name)
    if chassis not in vm.chassis:
        raise ClusterError(f"{name} has no port on {chassis}, only on {', '.join(vm.chassis)}")
    ids = [f"external_ids:iface-id={json.dumps(vm.lsp)}", f"external_ids:attached-mac={json.dumps(vm.mac)}"]
    on_node(
        chassis,
        ["ovs-vsctl", "--may-exist", "add-port", "br-int", vm.tap, "--", "set", "Interface", vm.tap, *ids],
    )


def unplug(name: str, chassis: str) -> None:
    """Takes the VM's port out of br-int of that chassis. Not plugged is fine."""
    on_node(chassis, ["ovs-vsctl", "--if-exists", "del-port", "br-int", load(name).tap])


def move(
    plan: Plan,
    name: str,
    source: str,
    target: str,
    *,
    binding: str = "managed",
    lead_ms: float = 0.0,
    keep_source: bool = False,
) -> float:
    """Lets the VM run on another chassis; returns the monotonic time in seconds at which it did.

    `binding` says who tells OVN: `managed` (somebody else, as ovnmig with a multichassis port), `requested`
    (this function sets requested-chassis to the target), `presence` (OVN binds where the port is plugged).
    `lead_ms` keeps the source running so long after the first RARP. The source is unplugged afterwards unless
    `keep_source`.
    """
    vm = load(name)
    if vm.on != source:
        raise ClusterError(f"{name} runs on {vm.on}, not on {source}")
    if binding not in ("managed", "requested", "presence"):
        raise PlanError(f"binding {binding!r} is none of managed, requested, presence")
    if target not in vm.chassis or target == source:
        raise ClusterError(
            f"{name} cannot move from {source} to {target}; it has ports on {', '.join(vm.chassis)}"
        )
    if vm.kind == "qemu":
        return _migrate(plan, vm, target, binding=binding, keep_source=keep_source)
    if binding == "presence":
        unplug(name, source)
    plug(plan, name, target)
    old, new = plan.node(source), plan.node(target)
    sender, new_index = netns.port_socket(vm.namespace, vm.port(new))
    old_probe, old_index = netns.port_socket(vm.namespace, vm.port(old))
    old_probe.close()
    control = netns.BridgeControl(vm.namespace)
    frame = netns.rarp_frame(vm.mac)
    try:
        if lead_ms > 0:
            sender.send(frame)
            time.sleep(lead_ms / 1000)
        control.set_state(new_index, netns.FORWARDING)
        sender.send(frame)
        control.set_state(old_index, netns.DISABLED, flush=True)
        moved_s = time.monotonic()
        save(replace(vm, on=target))
        if binding == "requested":
            _request(plan, vm, target)
        for count, pause_ms in enumerate(ANNOUNCE_PAUSES_MS):
            time.sleep(pause_ms / 1000)
            sender.send(frame)
            if count == UNPLUG_AFTER and not keep_source:
                unplug(name, source)
    finally:
        control.close()
        sender.close()
    return moved_s


def _migrate(plan: Plan, vm: Vm, target: str, *, binding: str, keep_source: bool) -> float:
    """As `move` for a real one: QEMU announces it, in its own way and time."""
    if binding == "presence":
        raise PlanError("a real VM has a port on both chassis while it moves: name who binds it")
    plug(plan, vm.name, target)
    moved_s = 0.0

    def runs_there() -> None:
        nonlocal moved_s
        moved_s = time.monotonic()
        save(replace(vm, on=target))
        if binding == "requested":
            _request(plan, vm, target)

    qemu.migrate(vm, vm.on, plan.node(target), runs_there)
    if not keep_source:
        unplug(vm.name, vm.on)
    qemu.end(vm, vm.on)
    return moved_s


def _request(plan: Plan, vm: Vm, chassis: str) -> None:
    value = f"options:requested-chassis={json.dumps(chassis)}"
    ovn.nbctl(plan, "set", "Logical_Switch_Port", vm.lsp, value)


def bound_to(plan: Plan, name: str) -> set[str]:
    """The chassis that have the VM's port bound in the Southbound database, additional ones included."""
    return ovn.bound_chassis(plan, load(name).lsp)


def wait_bound(plan: Plan, name: str, chassis: str, timeout_s: float = BOUND_TIMEOUT_S) -> None:
    """Waits until OVN has the VM's port bound on that chassis."""
    shell.wait_until(
        f"{name} bound on {chassis}", lambda: chassis in bound_to(plan, name), timeout_s=timeout_s
    )


def delete(name: str) -> None:
    """Removes the VM with its ports; its logical switch port stays, it belongs to whoever made it."""
    vm = load(name)
    for chassis in vm.chassis:
        if links.namespace_exists(chassis):
            # A crashed chassis cannot unplug; the port goes at its restart.
            with suppress(CommandError):
                unplug(name, chassis)
            # Taken away here: the kernel ends a namespace, and the cables into it, some time later, and the
            # next VM of that name would meet them. One that is gone already is fine.
            with suppress(CommandError):
                links.ip_batch([f"link del {vm.tap}"], namespace=chassis)
    _destroy(vm)
    vm_file(name).unlink(missing_ok=True)


def command(name: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` inside the VM. Raises ClusterError for a real VM."""
    vm = load(name)
    if vm.kind == "qemu":
        raise ClusterError(f"{name} is a real one: nothing runs in it but its own program")
    return shell.in_namespace(vm.namespace, argv)


def reaches(name: str, address: str) -> bool:
    """Whether one ping from the VM is answered within a second."""
    family = 6 if ":" in address else 4
    vm = load(name)
    if vm.kind == "qemu":
        qemu.wait_booted(vm)
        with qemu.control(vm) as line:
            return line.ask(f"ping {family} {address}") == "ping yes"
    try:
        shell.run(command(name, ["ping", f"-{family}", "-n", "-c", "1", "-W", "1", address]))
    except CommandError:
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="devenv.guest.vm", description="VM stand-ins that migrate")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="names of all VMs")
    verb = verbs.add_parser("add", help="create a VM and plug it in where it runs")
    verb.add_argument("name")
    verb.add_argument("--address", action="append", required=True, help="with prefix length; repeatable")
    verb.add_argument("--gateway", action="append", default=[], help="default route; repeatable")
    verb.add_argument("--lsp", help="logical switch port, the VM's name by default")
    verb.add_argument("--mac", help="derived from the name by default")
    verb.add_argument("--chassis", default="", help="comma list of where it may be; all by default")
    verb.add_argument("--on", help="where it runs first; the first of --chassis by default")
    verb.add_argument("--switch", help="create the logical switch port on this logical switch")
    verb.add_argument("--kind", default="namespace", choices=("namespace", "qemu"))
    verb.add_argument("--unplugged", action="store_true", help="do not plug it in yet")
    for name in ("plug", "unplug", "wait"):
        verb = verbs.add_parser(name)
        verb.add_argument("name")
        verb.add_argument("chassis")
    verb = verbs.add_parser("move", help="let it run on another chassis")
    verb.add_argument("name")
    verb.add_argument("source")
    verb.add_argument("target")
    verb.add_argument("--binding", default="managed", choices=("managed", "requested", "presence"))
    verb.add_argument("--lead-ms", type=float, default=0.0)
    verb.add_argument("--keep-source", action="store_true", help="leave it plugged in on the source")
    verbs.add_parser("del").add_argument("name")
    return parser


def _act(plan: Plan, args: argparse.Namespace) -> None:
    if args.verb == "list":
        print("\n".join(names()))
    elif args.verb == "add":
        add(
            plan,
            args.name,
            addresses=args.address,
            gateways=args.gateway,
            lsp=args.lsp,
            mac=args.mac,
            chassis=[name for name in args.chassis.split(",") if name],
            on=args.on,
            switch=args.switch,
            plugged=not args.unplugged,
            kind=args.kind,
        )
    elif args.verb == "plug":
        plug(plan, args.name, args.chassis)
    elif args.verb == "unplug":
        unplug(args.name, args.chassis)
    elif args.verb == "wait":
        wait_bound(plan, args.name, args.chassis)
    elif args.verb == "move":
        options = {"binding": args.binding, "lead_ms": args.lead_ms, "keep_source": args.keep_source}
        move(plan, args.name, args.source, args.target, **options)
    else:
        delete(args.name)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 the cluster refused, 2 wrong use."""
    args = _parser().parse_args(argv)
    try:
        _act(ovn.current_plan(), args)
    except (PlanError, ValueError) as error:
        print(f"vm: {error}", file=sys.stderr)
        return 2
    except (ClusterError, CommandError) as error:
        print(f"vm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
