"""A cancelled migration leaves rows and sessions exactly as they were; after the switch it is too late."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox import database
from tests.sandbox.cluster import Cluster
from tests.sandbox.phases import held
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import A, B, World


def without_history(data: database.Dump) -> database.Dump:
    """The database with ovnmig's record rows cut down to what they want: no epoch, no ended migrations."""
    return {
        table: {row: columns | cut(columns) for row, columns in rows.items()} for table, rows in data.items()
    }


def cut(columns: dict[str, Any]) -> dict[str, Any]:
    ids = dict(columns.get("external_ids", ["map", []])[1])
    if ids.get("ovnmig-role") != "record":
        return {}
    document = json.loads(ids["ovnmig-document"])["document"]
    wanted = {key: value for key, value in document.items() if key != "ended"}
    return {"external_ids": ids | {"ovnmig-document": wanted, "ovnmig-epoch": ""}}


@contextlib.contextmanager
def unchanged(cluster: Cluster) -> Iterator[None]:
    before = without_history(database.dump(cluster))
    yield
    assert database.differences(before, without_history(database.dump(cluster))) == []


@pytest.mark.parametrize("phase", ["preparing", "copying", "ready"])
def test_a_migration_cancelled_in_a_phase_leaves_all_as_it_was(world: World, phase: str) -> None:
    vm, rest = world.vms[0], world.cluster.rest
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, pair_sessions(*world.vms)) as traffic:
        with traffic.move(), unchanged(world.cluster):
            with held(world.cluster, phase, B):
                migration = world.start_migration(vm, B, trigger="manual")
                rest.reached(migration, {phase})
                assert rest.call("DELETE", f"/v1/migrations/{migration}").status == 202
            done = rest.reached(migration, {"rolled-back"}, 30)
            assert done["cancel_ordered"] is True
        assert world.owner() == A
        assert world.udn()["drift"] == []
        assert world.udn()["migration"] is None
        traffic.assert_all_survived()


def test_a_cancel_after_the_switch_is_refused(world: World) -> None:
    vm, rest = world.vms[0], world.cluster.rest
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    migration = world.start_migration(vm, B, overlap_s=0)
    world.arrive(migration, vm, A, B)
    rest.reached(migration, {"completed"})
    answer = rest.call("DELETE", f"/v1/migrations/{migration}")
    assert answer.status == 409
    assert answer.body["detail"]
    assert world.owner() == B
