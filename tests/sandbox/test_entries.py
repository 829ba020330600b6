"""Entries on the target: put back when they vanish, and carried by agents with two capabilities only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.sandbox.cluster import Cluster, eventually
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import A, B, World

LIMITED = """#!/bin/sh
exec setpriv --bounding-set=-all,+net_admin,+net_raw --inh-caps=-all,+net_admin,+net_raw \\
    /opt/ovnmig/bin/python "$@"
"""
NET_ADMIN, NET_RAW = 12, 13


def gateway_zone(world: World, chassis: str) -> int:
    """The number of the gateway's SNAT zone on a chassis."""
    zones = world.cluster.zones(chassis)
    found = [number for user, number in zones.items() if user == f"{world.udn()['router']}_snat"]
    assert len(found) == 1, zones
    return found[0]


def session_entries(world: World, chassis: str) -> set[str]:
    """Entries of the gateway's zone for the server's push port, without what changes by itself."""
    lines = world.cluster.entries(chassis, gateway_zone(world, chassis))
    words = (line.split() for line in lines if "dport=7003" in line)
    return {" ".join(w for w in line if w.startswith(("src=", "dst=", "sport=", "dport="))) for line in words}


def test_entries_that_vanish_on_the_target_are_put_back(world: World) -> None:
    vm, cluster = world.vms[0], world.cluster
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    with playing(cluster, pair_sessions(*world.vms)) as traffic:
        with traffic.move():
            migration = world.start_migration(vm, B, trigger="manual")
            cluster.rest.reached(migration, {"ready"})
            wanted = session_entries(world, A)
            assert len(wanted) == 4, wanted
            assert session_entries(world, B) == wanted
            zone = str(gateway_zone(world, B))
            for family in ("ipv4", "ipv6"):
                words = ["-D", "-f", family, "-w", zone, "-p", "tcp", "--dport", "7003"]
                cluster.run("conntrack", *words, node=B)
            eventually("the entries are back", lambda: session_entries(world, B) == wanted, 15)
            world.arrive(migration, vm, A, B)
            world.order_switch(migration)
            cluster.rest.reached(migration, {"completed"})
        traffic.assert_all_survived()


@contextlib.contextmanager
def limited_agents(cluster: Cluster, *chassis: str) -> Iterator[None]:
    """Agents that hold CAP_NET_ADMIN and CAP_NET_RAW and nothing else."""
    script = "/tmp/limited-python"
    cluster.channel.run(["tee", script], stdin=LIMITED, check=True)
    cluster.run("chmod", "755", script)
    code = (
        "import os, sys; from devenv.guest import ovn, services; "
        "node = ovn.current_plan().node(sys.argv[1]); services.stop_node_service(node); "
        f"os.environ['OVNMIG_PYTHON'] = {script!r}; services.start_node_service(node)"
    )
    try:
        for node in chassis:
            cluster.python(code, node)
        cluster.ready()
        yield
    finally:
        for node in chassis:
            cluster.service("stop", node)
            cluster.service("start", node)
        cluster.ready()


def test_agents_with_two_capabilities_carry_sessions(world: World) -> None:
    vm, cluster = world.vms[0], world.cluster
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    with limited_agents(cluster, A, B):
        for node in (A, B):
            status = cluster.run("cat", f"/proc/{cluster.pid(node, 'ovnmig')}/status")
            held = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
            assert int(held, 16) == 1 << NET_ADMIN | 1 << NET_RAW, f"{node}: {held}"
        with playing(cluster, pair_sessions(*world.vms)) as traffic:
            with traffic.move():
                done = world.migrate(vm, A, B)
            assert (done["counts"]["refused"], done["counts"]["lost"]) == (0, 0)
            traffic.assert_all_survived()
