"""State in the zone of the VM's own port: sessions that OVN lets through, or translates back, by it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from devenv.demo.plan import PUSH_PORT, SERVER_PORTS, Session
from tests.sandbox.cluster import eventually
from tests.sandbox.traffic import Traffic, playing
from tests.sandbox.world import SERVERS, A, B, C, World

PUSH = SERVER_PORTS["push"]
SERVICES = {4: "10.96.0.1", 6: "fd00:96::1"}
"""Addresses of a load balancer; the outside server stands behind them."""
TUPLES = ("src=", "dst=", "sport=", "dport=")


def only_replies_come_in(world: World) -> Mapping[int, str]:
    """Nothing may come in to the VM but replies to what it began itself."""
    port = f'outport == "{world.vms[0]}" && ip'
    allow = [
        "acl-add",
        world.name,
        "from-lport",
        "1002",
        f'inport == "{world.vms[0]}" && ip',
        "allow-related",
    ]
    drop = ["--", "acl-add", world.name, "to-lport", "1001", port, "drop"]
    world.cluster.nbctl("--wait=hv", *allow, *drop)
    return SERVERS


def through_a_load_balancer(world: World) -> Mapping[int, str]:
    """The VM connects to an address that OVN translates on the VM's switch."""
    balancer = f"{world.name}-lb"
    words = ["--wait=hv", "lb-add", balancer, f"{SERVICES[4]}:{PUSH}", f"{SERVERS[4]}:{PUSH}", "tcp"]
    words += ["--", "lb-add", balancer, f"[{SERVICES[6]}]:{PUSH}", f"[{SERVERS[6]}]:{PUSH}", "tcp"]
    world.cluster.nbctl(*words)
    world.cluster.nbctl("--wait=hv", "ls-lb-add", world.name, balancer)
    return SERVICES


def take_away(world: World) -> None:
    """The load balancer is nobody's child: it does not go with the switch."""
    world.cluster.nbctl("--if-exists", "lb-del", f"{world.name}-lb")


STATEFUL = pytest.mark.parametrize(
    "state",
    [only_replies_come_in, through_a_load_balancer],
    ids=["allow-related", "load-balancer"],
)


def own_entries(world: World, chassis: str) -> set[str]:
    """Tuples of the pushes' entries in the zone of the VM's port on a chassis."""
    zone = world.cluster.zones(chassis).get(world.vms[0])
    if zone is None:
        return set()
    lines = (line for line in world.cluster.entries(chassis, zone) if f"port={PUSH} " in line)
    return {" ".join(word for word in line.split() if word.startswith(TUPLES)) for line in lines}


def gateway_elsewhere(world: World) -> list[Session]:
    """The gateway is on a third chassis and stays there: the VM's own zone is all that has to move."""
    world.create(policy="pinned", chassis=[C, B])
    world.settle(C)
    world.wait_reachable()
    return [Session(f"push-v{family}", "push", family, world.vms[0], PUSH_PORT) for family in SERVERS]


def move(world: World, traffic: Traffic, transfer: str, plugged: Callable[[], None]) -> None:
    """The VM moves from A to B; ``plugged`` is called before it runs there."""
    vm, rest = world.vms[0], world.cluster.rest
    with traffic.move():
        migration = world.start_migration(vm, B, transfer=transfer)
        rest.reached(migration, {"ready"})
        world.cluster.tool("vm", "plug", vm, B)
        world.cluster.tool("vm", "wait", vm, B)
        plugged()
        world.move_vm(vm, A, B)
        rest.reached(migration, {"completed"})


@STATEFUL
def test_a_session_that_needs_its_ports_state_moves_with_it(
    each_world: World, state: Callable[[World], Mapping[int, str]]
) -> None:
    world = each_world
    sessions = gateway_elsewhere(world)
    try:
        with playing(world.cluster, sessions, servers=state(world)) as traffic:
            before = own_entries(world, A)
            assert len(before) == len(sessions), before

            def zone_is_there() -> None:
                # Both chassis have the port now and OVN brings replies to both; what they left gives way.
                eventually("the VM's own zone on B", lambda: own_entries(world, B) == before, 10)

            move(world, traffic, "full", zone_is_there)
            traffic.assert_all_survived()
    finally:
        take_away(world)


@STATEFUL
def test_without_its_ports_state_it_dies(world: World, state: Callable[[World], Mapping[int, str]]) -> None:
    sessions = gateway_elsewhere(world)
    try:
        with playing(world.cluster, sessions, servers=state(world)) as traffic:
            move(world, traffic, "none", lambda: None)
            fates = traffic.fates(traffic.finish(after_s=6))
    finally:
        take_away(world)
    alive = [name for name, why in fates.items() if not why]
    assert not alive, f"they lived without their entries, so their survival proves nothing: {alive}"
