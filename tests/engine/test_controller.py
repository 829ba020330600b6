from __future__ import annotations

import pytest

from ovnmig.core.bfd import VALUES, Profile
from ovnmig.engine.protocols import DatabaseUnavailable
from tests.engine.world import World, a_request, a_udn


async def test_a_migration_runs_end_to_end() -> None:
    world = World()
    async with world.controller() as one:
        state = await one.api.create_udn(a_udn())
        assert state.owner == "A"
        record = await one.api.migrate(a_request())
        await one.until(record.id, "ready")
        world.arrive("vm1", "B")
        await one.until(record.id, "converging")
        world.settle_binding("vm1", "B")
        done = await one.until(record.id, "completed")
    assert world.owner() == "B"
    assert done.nb_transactions == 3
    assert world.nb.ports["vm1"] == {"requested-chassis": "B"}


async def test_the_service_is_ready_only_while_both_databases_answer() -> None:
    world = World()
    async with world.controller() as one:
        assert (await one.api.health()).ready
        world.sb.down = "connection refused"
        health = await one.api.health()
        assert (health.ready, health.problems) == (False, ("Southbound database: connection refused",))
        world.sb.down = ""
        world.history.fails = "disk full"
        await one.api.create_udn(a_udn())
        health = await one.api.health()
        assert health.ready
        assert health.problems == ("the history cannot be written: disk full",)


async def test_a_controller_that_has_not_looked_yet_is_not_ready() -> None:
    world = World()
    running = world.controller()
    health = await running.api.health()
    assert not health.ready
    assert "no look" in health.problems[0]


async def test_a_controller_started_without_a_database_leads_as_soon_as_there_is_one() -> None:
    world = World()
    world.nb.down = "connection refused"
    async with world.controller() as one:
        with pytest.raises(DatabaseUnavailable, match="Northbound database is away: connection refused"):
            await one.api.create_udn(a_udn())
        world.nb.down = ""
        await world.clock.pass_time(2.0)
        assert (await one.api.create_udn(a_udn())).owner == "A"


async def test_events_are_followed_through_the_api() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        kinds = [event.kind async for event in one.api.events(after=0, follow=False)]
    assert kinds == ["lead", "udn-created"]


async def test_a_bfd_profile_is_written_once_and_told() -> None:
    world = World()
    async with world.controller() as one:
        assert await one.api.bfd() == {}
        for _ in range(2):
            assert await one.api.set_bfd(Profile.FAST) == VALUES[Profile.FAST]
        assert await one.api.bfd() == VALUES[Profile.FAST]
    assert world.kinds().count("bfd: BFD intervals are those of profile fast") == 1
