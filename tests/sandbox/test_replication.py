"""The death of the gateway's node: with continuous replication its sessions go on, without it they die."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from devenv.demo.plan import Session
from tests.sandbox.cluster import CHASSIS, Cluster, eventually
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import B, C, World

POWER = "import sys; from devenv.guest import ovn, power; power.{verb}(ovn.current_plan(), sys.argv[1])"


@dataclass
class Power:
    """The supply of one chassis."""

    cluster: Cluster
    node: str
    on: bool = True

    def cut(self) -> None:
        """Cables out, everything killed."""
        self.cluster.python(POWER.format(verb="crash"), self.node)
        self.on = False

    def restore(self) -> None:
        """The node boots with an empty kernel."""
        self.on = True
        self.cluster.python(POWER.format(verb="restart"), self.node)


@contextlib.contextmanager
def power_of(cluster: Cluster, node: str) -> Iterator[Power]:
    """The node has power again after the block."""
    supply = Power(cluster, node)
    try:
        yield supply
    finally:
        if not supply.on:
            supply.restore()
        cluster.ready()


@contextlib.contextmanager
def fast_detection(cluster: Cluster) -> Iterator[None]:
    """BFD notices a dead node after 3 x 200 ms inside the block."""
    before = cluster.rest.ok("GET", "/v1/bfd")["profile"]
    cluster.rest.ok("PUT", "/v1/bfd", {"profile": "fast"})
    cluster.nbctl("--wait=hv", "sync")
    try:
        yield
    finally:
        cluster.rest.ok("PUT", "/v1/bfd", {"profile": before})
        cluster.nbctl("--wait=hv", "sync")


def sessions_of(world: World) -> list[Session]:
    """Translated twins and pushes, and a UDP echo of either family."""
    vm = world.vms[0]
    return pair_sessions(*world.vms) + [Session(f"{vm}-udp-v{f}", "udp", f, vm) for f in world.families]


def gateway_beside_the_vms(world: World, replication: str) -> None:
    """A gateway on chassis B, its standby on C, the VMs on neither."""
    world.create(policy="pinned", chassis=[B, C], replication=replication)
    world.settle(B)
    world.wait_reachable()
    # OVN's rule: a standby that hears nobody takes itself for the one that is cut off, and claims nothing.
    eventually("the standby hears everybody", lambda: heard(world.cluster, C) == len(CHASSIS) - 1)


def heard(cluster: Cluster, chassis: str) -> int:
    """Chassis to which BFD of this one is up."""
    words = ["--bare", "--columns=name", "find", "Interface", "type=geneve", "bfd_status:state=up"]
    return len(cluster.run("ovs-vsctl", *words, node=chassis).split())


def wait_claimed(world: World) -> None:
    """Until C has the gateway; tells what OVN saw when it never does."""
    try:
        world.wait_owner(C)
    except AssertionError as error:
        cluster, port = world.cluster, f"cr-{world.udn()['router']}-ext"
        seen = [
            cluster.sbctl(
                "--columns=chassis,requested_chassis", "find", "Port_Binding", f"logical_port={port}"
            ),
            cluster.sbctl("--columns=_uuid,name", "list", "Chassis"),
            cluster.run(
                "ovs-vsctl", "--columns=name,bfd,bfd_status", "find", "Interface", "type=geneve", node=C
            ),
            cluster.run("sh", "-c", f"tail -n 30 /run/ovnmig/{C}/log/ovn-controller.log"),
        ]
        raise AssertionError("\n".join([str(error), *seen])) from None


def in_step(udn: Any) -> bool:
    """The standby holds what the owner holds."""
    return bool(udn["standbys"]) and all(one["state"] == "in-step" for one in udn["standbys"])


def test_the_sessions_outlive_the_gateways_node_and_it_returns_as_a_standby(each_world: World) -> None:
    world, rest = each_world, each_world.cluster.rest
    gateway_beside_the_vms(world, "continuous")
    sessions = sessions_of(world)
    with fast_detection(world.cluster), power_of(world.cluster, B) as power:
        with playing(world.cluster, sessions) as traffic:
            rest.wait("the copy in step", world.path, in_step)
            with traffic.move():
                power.cut()
                wait_claimed(world)
            traffic.pause()
            with traffic.move():
                power.restore()
                back = rest.wait("the copy back in step", world.path, in_step, 60)
            traffic.assert_all_survived()
        assert back["owner"] == C
        # The heir C ranks above the node that came back, so nothing draws the gateway there.
        ranks = {member["chassis"]: member["priority"] for member in back["members"]}
        assert ranks[C] > ranks[B]
        (standby,) = back["standbys"]
        assert standby["chassis"] == B
        world.settle(C)
        assert world.owner() == C


def test_without_replication_they_die_with_the_node(each_world: World) -> None:
    world = each_world
    gateway_beside_the_vms(world, "none")
    with fast_detection(world.cluster), power_of(world.cluster, B) as power:
        with playing(world.cluster, sessions_of(world)) as traffic:
            with traffic.move():
                power.cut()
                wait_claimed(world)
            records = traffic.finish(after_s=6)
        fates = traffic.fates(records)
        translated = [name for name, record in records.items() if record.translated]
        assert len(translated) == 4, translated
        alive = [name for name in translated if not fates[name]]
        assert not alive, f"they lived without their entries, so their survival proves nothing: {alive}"
