"""The controller is killed in each phase and started again: the migration ends well, the sessions live."""

from __future__ import annotations

import contextlib

import pytest

from tests.sandbox.cluster import CENTRAL
from tests.sandbox.phases import held
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import A, B, World


@pytest.fixture
def owned(world: World) -> World:
    """A world with its gateway on the first chassis, where its VMs are."""
    world.create(anchor=world.vms[0])
    world.settle()
    world.wait_reachable()
    return world


@pytest.mark.parametrize("phase", ["preparing", "copying", "ready"])
def test_a_controller_killed_before_the_switch_goes_on_to_the_end(owned: World, phase: str) -> None:
    vm, cluster = owned.vms[0], owned.cluster
    with playing(cluster, pair_sessions(*owned.vms)) as traffic:
        with traffic.move():
            with held(cluster, phase, B):
                migration = owned.start_migration(vm, B)
                cluster.rest.reached(migration, {phase})
                cluster.restart_controller()
                seen = cluster.rest.ok("GET", f"/v1/migrations/{migration}")
                assert seen["phase"] in (phase, "copying", "preparing"), "it is found where it stood"
            owned.arrive(migration, vm, A, B)
            done = cluster.rest.reached(migration, {"completed"})
        assert done["nb_transactions"] <= 3
        assert owned.owner() == B
        traffic.assert_all_survived()


def test_a_controller_killed_while_switching_goes_on_to_the_end(owned: World) -> None:
    """The target's ovn-controller stands still, so the switch is written and the port not yet claimed."""
    vm, cluster = owned.vms[0], owned.cluster
    with playing(cluster, pair_sessions(*owned.vms)) as traffic:
        with traffic.move():
            migration = owned.start_migration(vm, B, trigger="manual")
            owned.arrive(migration, vm, A, B)
            cluster.rest.reached(migration, {"ready"})
            with cluster.frozen(B, "ovn-controller"):
                owned.order_switch(migration)
                cluster.rest.reached(migration, {"switching"})
                cluster.service("kill", CENTRAL)
            cluster.service("start", CENTRAL)
            cluster.ready()
            done = cluster.rest.reached(migration, {"completed"})
        assert done["nb_transactions"] <= 3
        assert owned.owner() == B
        traffic.assert_all_survived()


def test_a_controller_killed_while_converging_closes_the_record(owned: World) -> None:
    vm, cluster = owned.vms[0], owned.cluster
    with playing(cluster, pair_sessions(*owned.vms)) as traffic:
        with traffic.move():
            migration = owned.start_migration(vm, B, overlap_s=8)
            owned.arrive(migration, vm, A, B)
            cluster.rest.reached(migration, {"converging"})
            cluster.restart_controller()
            done = cluster.rest.reached(migration, {"completed"})
        assert done["nb_transactions"] <= 3
        assert owned.owner() == B
        assert owned.udn()["drift"] == []
        traffic.assert_all_survived()


def test_a_controller_killed_while_rolling_back_rolls_back(owned: World) -> None:
    """The source's agent stands still, so the end of the transfer is not acknowledged."""
    vm, cluster = owned.vms[0], owned.cluster
    with playing(cluster, pair_sessions(*owned.vms)) as traffic:
        with traffic.move():
            migration = owned.start_migration(vm, B, trigger="manual")
            cluster.rest.reached(migration, {"ready"})
            with contextlib.ExitStack() as stack:
                stack.enter_context(cluster.frozen(A, "ovnmig"))
                stack.enter_context(cluster.frozen(B, "ovnmig"))
                assert cluster.rest.call("DELETE", f"/v1/migrations/{migration}").status == 202
                cluster.rest.reached(migration, {"rolling-back"}, 10)
                cluster.service("kill", CENTRAL)
            cluster.service("start", CENTRAL)
            cluster.ready()
            cluster.rest.reached(migration, {"rolled-back"})
        assert owned.owner() == A
        assert owned.udn()["drift"] == []
        traffic.assert_all_survived()
