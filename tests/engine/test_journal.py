from __future__ import annotations

import asyncio

from ovnmig.engine.journal import PAGE, Journal
from ovnmig.engine.protocols import JournalEvent
from tests.core.machine import a_record
from tests.engine.agents import MemoryHistory
from tests.engine.clock import ManualClock


async def collect(journal: Journal, after: int | None, follow: bool, into: list[int]) -> None:
    async for event in journal.follow(after, follow):
        into.append(event.seq)


async def test_past_events_are_read_to_the_end_over_many_pages() -> None:
    journal = Journal(MemoryHistory(), ManualClock())
    for number in range(PAGE + 3):
        await journal.write("phase", str(number))
    seen: list[int] = []
    await collect(journal, 2, False, seen)
    assert seen == list(range(3, PAGE + 4))


async def test_a_follower_gets_what_is_new_once_and_in_order_whoever_else_follows() -> None:
    clock = ManualClock()
    journal = Journal(MemoryHistory(), clock)
    fresh: list[int] = []
    late: list[int] = []
    everything: list[int] = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(collect(journal, None, True, fresh))]
        tasks.append(group.create_task(collect(journal, 0, True, everything)))
        await clock.settle()
        for _ in range(3):
            await journal.write("phase", "x")
        await clock.settle()
        tasks.append(group.create_task(collect(journal, None, True, late)))
        await clock.settle()
        await journal.write("phase", "x")
        await clock.settle()
        for task in tasks:
            task.cancel()
    assert (fresh, everything, late) == ([1, 2, 3, 4], [1, 2, 3, 4], [4])


async def test_only_what_is_new_without_following_is_nothing() -> None:
    journal = Journal(MemoryHistory(), ManualClock())
    await journal.write("phase", "x")
    seen: list[int] = []
    await collect(journal, None, False, seen)
    assert seen == []


async def test_a_history_that_cannot_be_written_stops_nothing_and_is_named() -> None:
    history = MemoryHistory()
    journal = Journal(history, ManualClock())
    history.fails = "disk full"
    await journal.write("phase", "x")
    assert journal.problem == "the history cannot be written: disk full"
    history.fails = ""
    await journal.write("phase", "y", udn="blue", migration="m1", details={"a": 1})
    assert journal.problem == ""
    assert history.events == [JournalEvent(1, 1000.0, "phase", "blue", "m1", "y", {"a": 1})]


async def test_an_ended_migration_is_kept_and_one_that_cannot_be_stops_nothing() -> None:
    history = MemoryHistory()
    journal = Journal(history, ManualClock())
    await journal.keep(a_record())
    assert await journal.kept("m1") == a_record()
    assert await journal.all_kept("blue") == (a_record(),)
    assert await journal.all_kept("red") == ()
    history.fails = "disk full"
    await journal.keep(a_record())
    assert journal.problem == "the history cannot be written: disk full"
