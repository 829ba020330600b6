from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from ovnmig.core.events import CancelOrdered, SwitchOrdered
from ovnmig.core.migration import MigrationRecord, Phase, Trigger
from ovnmig.engine import store
from ovnmig.engine.counters import NoCounters
from ovnmig.engine.journal import Journal
from ovnmig.engine.options import EngineOptions
from ovnmig.engine.perform import Performer
from ovnmig.engine.protocols import DatabaseUnavailable
from ovnmig.engine.runner import Fenced, Outside, Runner
from tests.core.machine import a_record
from tests.engine.world import World, a_udn


async def outcome(work: Coroutine[object, object, object]) -> object:
    """What it returns or raises; a task group would end with what a task raises."""
    try:
        return await work
    except (Fenced, AttributeError) as error:
        return error


async def a_runner(world: World, record: MigrationRecord, group: asyncio.TaskGroup) -> Runner:
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
    outside = Outside(
        world.nb.seen_by("one"),
        world.sb,
        Performer(world.sb, world.agents),
        Journal(world.history, world.clock),
        world.clock,
        EngineOptions(),
        NoCounters(),
    )
    stored = store.find(world.nb.view(), "blue")
    assert stored is not None
    return Runner(outside, stored, record, group)


async def test_the_record_is_in_the_database_before_any_agent_is_told_anything() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        runner = await a_runner(world, a_record(), group)
        record = await runner.begin()
        assert record.phase is Phase.PREPARING
        assert world.agents.log == []
        assert '"phase":"preparing"' in world.nb.udns["blue"].document
        runner.stop()


async def test_a_begin_that_is_not_written_raises_and_leaves_no_task() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        runner = await a_runner(world, a_record(), group)
        world.nb.fail_next = [DatabaseUnavailable("away")]
        with pytest.raises(DatabaseUnavailable, match="away"):
            await runner.begin()
    assert world.agents.log == []


async def test_another_epoch_than_remembered_fences_the_runner() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        runner = await a_runner(world, a_record(), group)
        world.nb.udns["blue"].epoch += 1
        with pytest.raises(Fenced):
            await runner.begin()


async def test_an_order_to_a_runner_that_stops_is_not_left_unanswered() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        runner = await a_runner(world, a_record(trigger=Trigger.MANUAL), group)
        await runner.begin()
        asked = group.create_task(outcome(runner.order(SwitchOrdered())))
        await world.clock.settle()
        runner.stop()
        assert "ask again" in str(await asked)
        with pytest.raises(Fenced, match="just ended"):
            await runner.order(CancelOrdered())


async def test_the_answers_to_orders_of_a_state_that_was_left_are_dropped() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        runner = await a_runner(world, a_record(), group)
        await runner.begin()
        world.agents.nodes["B"].hangs = True
        task = group.create_task(runner.main())
        await world.clock.settle()
        answer, _ = await runner.order(CancelOrdered())
        assert answer.accepted
        world.agents.nodes["B"].hangs = False
        await world.clock.until(task.done)
    assert runner.record.phase in (Phase.ROLLED_BACK, Phase.ROLLING_BACK)
    assert "invariant" not in {event.kind for event in world.history.events}


async def test_an_unexpected_failure_of_an_order_ends_the_task_with_it() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        runner = await a_runner(world, a_record(), group)
        await runner.begin()
        del world.agents.nodes["B"].bfd  # a defect of the driver: it raises what no protocol names
        task = group.create_task(outcome(runner.main()))
        assert isinstance(await task, AttributeError)
        assert runner.ended.is_set()
        assert runner.story


async def test_a_southbound_database_away_while_the_vm_is_watched_for_is_waited_out() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        runner = await a_runner(world, a_record(overlap_s=1.0), group)
        await runner.begin()
        task = group.create_task(runner.main())
        await world.clock.until(lambda: runner.record.phase is Phase.READY)
        world.sb.down = "away"
        world.sb.news.changed()
        await world.clock.pass_time(3.0)
        world.sb.down = ""
        await world.clock.pass_time(60.0)
        assert runner.record.phase.value == "ready"
        world.arrive("vm1", "B")
        await world.clock.until(task.done)
    assert runner.record.phase is Phase.COMPLETED
