from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface

import pytest

from ovnmig.core.rows import EpochConflict
from ovnmig.core.udn import Refused
from ovnmig.engine import store
from ovnmig.engine.protocols import Conflict, DatabaseUnavailable, NotFound, NotLeader
from tests.engine.world import World, a_request, a_udn


async def test_a_udn_is_created_in_one_transaction_with_its_placement_explained() -> None:
    world = World()
    async with world.controller() as one:
        state = await one.api.create_udn(a_udn())
    assert world.nb.effects() == ["rows and record"]
    assert state.changed
    assert state.protected
    assert state.owner == "A"
    assert state.router == "ovnmig-blue"
    assert state.drift == ()
    assert state.placement.reasons["A"].startswith("active: maps public")
    assert "runs the anchor VM" in state.placement.reasons["A"]
    assert state.placement.reasons["C"].startswith("spare")


async def test_an_identical_request_changes_nothing_and_says_so() -> None:
    world = World()
    async with world.controller() as one:
        first = await one.api.create_udn(a_udn())
        again = await one.api.create_udn(a_udn())
        put = await one.api.change_udn("blue", a_udn())
    assert (again.changed, put.changed) == (False, False)
    assert first.epoch == again.epoch == put.epoch
    assert world.nb.effects() == ["rows and record"]


async def test_another_specification_under_the_same_name_is_refused() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        with pytest.raises(Refused, match="exists with another specification"):
            await one.api.create_udn(a_udn(standby_count=2))


async def test_a_change_of_the_vip_is_one_transaction() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        vips = (ip_interface("172.16.1.150/24"), ip_interface("fd16::150/64"))
        state = await one.api.change_udn("blue", a_udn(vips=vips))
    assert state.changed
    assert state.spec.vips == vips
    assert world.nb.effects() == ["rows and record"] * 2


async def test_a_change_that_would_take_the_gateway_away_without_its_sessions_is_refused() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        with pytest.raises(Refused, match="move the gateway first"):
            await one.api.change_udn("blue", a_udn(chassis=("B", "C")))


async def test_drift_is_named_once_in_the_journal_and_repaired_by_the_same_specification() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        uuid, row = world.nb.udns["blue"].rows["gateway:B"]
        world.nb.udns["blue"].rows["gateway:B"] = (
            uuid,
            replace(row, columns={**row.columns, "priority": 99}),
        )
        world.nb.news.changed()
        await world.clock.pass_time(5.0)
        state = await one.api.udn("blue")
        assert len(state.drift) == 1
        assert "priority is 99" in state.drift[0]
        with pytest.raises(Refused, match="rows were changed by somebody else"):
            await one.api.migrate(a_request(target="C"))
        assert (await one.api.change_udn("blue", a_udn())).changed
        assert (await one.api.udn("blue")).drift == ()
        await world.clock.pass_time(5.0)
    drift = [event.message for event in world.history.events if event.kind == "drift"]
    assert len(drift) == 2
    assert drift[1] == "the rows are as specified again"


async def test_deleting_removes_the_record_too_and_a_second_time_is_not_found() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        await one.api.delete_udn("blue")
        assert world.nb.udns == {}
        assert await one.api.udns() == ()
        with pytest.raises(NotFound):
            await one.api.delete_udn("blue")
        with pytest.raises(NotFound):
            await one.api.udn("blue")


async def test_a_udn_in_flight_is_neither_changed_nor_deleted() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        assert (await one.api.udn("blue")).migration == record.id
        with pytest.raises(Conflict, match=record.id):
            await one.api.delete_udn("blue")
        with pytest.raises(Conflict, match=record.id):
            await one.api.change_udn("blue", a_udn(standby_count=2))


async def test_udns_are_listed_by_name_and_a_damaged_row_hides_no_other() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn("zebra", 102))
        await one.api.create_udn(a_udn("a name with spaces", 101))
        await one.api.create_udn(a_udn())
        world.nb.udns["blue"].document = "{}"
        assert [state.spec.name for state in await one.api.udns()] == ["a name with spaces", "zebra"]
        health = await one.api.health()
        assert health.ready
        assert "'blue'" in health.problems[0]


async def test_a_udn_without_an_eligible_chassis_any_more_is_still_shown() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.sb.chassis.clear()
        assert "public" in (await one.api.udn("blue")).placement.reasons[""]


async def test_a_database_away_is_said_and_nothing_is_half_made() -> None:
    world = World()
    async with world.controller() as one:
        world.nb.fail_next = [DatabaseUnavailable("not connected")]
        with pytest.raises(DatabaseUnavailable):
            await one.api.create_udn(a_udn())
        assert world.nb.udns == {}


async def test_a_udn_that_others_keep_changing_is_given_up_after_three_times() -> None:
    world = World()
    async with world.controller() as one:
        world.nb.fail_next = [EpochConflict("raced")] * 3
        with pytest.raises(Conflict, match="changed by somebody else"):
            await one.api.create_udn(a_udn())
        await one.api.create_udn(a_udn())
        world.nb.race_next = 3
        with pytest.raises(Conflict, match="changed by somebody else"):
            await one.api.change_udn("blue", a_udn(standby_count=2))
        world.nb.race_next = 3
        with pytest.raises(Conflict, match="changed by somebody else"):
            await one.api.delete_udn("blue")
        world.nb.race_next = 1
        await one.api.delete_udn("blue")
    assert world.nb.udns == {}


async def test_a_write_that_loses_the_race_is_decided_anew() -> None:
    world = World()
    async with world.controller() as one, world.controller("two") as two:
        await one.api.create_udn(a_udn())
        world.nb.leader = "two"
        await world.clock.pass_time(2.0)
        with pytest.raises(NotLeader):
            await one.api.change_udn("blue", a_udn())
        world.nb.race_next = 1
        assert (await two.api.change_udn("blue", a_udn(standby_count=2))).changed
        assert world.nb.race_next == 0


async def test_a_set_that_grows_is_young_again_and_one_that_does_not_is_not() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        await world.clock.pass_time(30)
        for standbys, age_s in ((2, 0.0), (1, 30.0)):
            await one.api.change_udn("blue", a_udn(standby_count=standbys))
            stored = store.find(world.nb.view(), "blue")
            assert stored is not None
            assert world.clock.now() - stored.document.grown_at == age_s
            await world.clock.pass_time(30)
