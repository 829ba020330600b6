from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ovnmig.drivers import history
from ovnmig.drivers.history import SqliteHistory
from ovnmig.engine.protocols import History, JournalEvent


@asynccontextmanager
async def opened(path: Path, keep: int = history.KEEP) -> AsyncIterator[SqliteHistory]:
    made = SqliteHistory(path, keep=keep)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def write(target: History, message: str, migration: str = "m1") -> JournalEvent:
    return await target.append(
        at=12.5, kind="phase", udn='blü "net"', migration=migration, message=message, details={"n": [1, "é"]}
    )


async def test_what_is_appended_is_read_in_order_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "history.sqlite"
    async with opened(path) as made:
        events = [await write(made, str(n)) for n in range(3)]
        assert await made.read() == tuple(events)
    async with opened(path) as again:
        assert again.problem == ""
        assert await again.read() == tuple(events)
        later = await write(again, "later")
        assert later.seq == events[-1].seq + 1
        assert await again.last() == later.seq


async def test_reading_goes_on_after_a_number_up_to_a_limit_and_by_migration(tmp_path: Path) -> None:
    async with opened(tmp_path / "h") as made:
        for n in range(10):
            await write(made, str(n), migration=f"m{n % 2}")
        assert [e.message for e in await made.read(after=7)] == ["7", "8", "9"]
        assert [e.message for e in await made.read(after=2, limit=2)] == ["2", "3"]
        assert [e.message for e in await made.read(migration="m1")] == ["1", "3", "5", "7", "9"]
        assert await made.read(after=10) == ()


async def test_a_damaged_file_is_set_aside_and_a_new_one_started_and_said(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    for number in (1, 2):
        path.write_bytes(b"this is no database" * 500)
        async with opened(path) as made:
            assert "damaged" in made.problem
            assert str(tmp_path) in made.problem
            aside = tmp_path / f"history.sqlite.damaged-{number}"
            assert aside.read_bytes().startswith(b"this is no database")
            assert (await write(made, "goes on")).seq == 1
            assert [e.message for e in await made.read()] == ["goes on"]


async def test_damage_inside_a_database_is_found_too(tmp_path: Path) -> None:
    path = tmp_path / "h"
    async with opened(path) as made:
        for n in range(500):
            await write(made, str(n) * 50)
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 16384)
    async with opened(path) as again:
        assert "damaged" in again.problem
        assert (await again.read()) == ()


async def test_a_number_of_a_lost_file_reads_from_the_start(tmp_path: Path) -> None:
    async with opened(tmp_path / "h") as made:
        await write(made, "first of the new file")
        assert [e.message for e in await made.read(after=5000)] == ["first of the new file"]


async def test_a_place_that_cannot_be_written_keeps_events_in_memory_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    async with opened(path) as made:
        assert "memory" in made.problem
        events = [await write(made, str(n)) for n in range(3)]
        assert [e.seq for e in events] == [1, 2, 3]
        assert await made.read(after=1) == tuple(events[1:])


async def test_a_file_that_stops_taking_writes_goes_on_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "h"
    async with opened(path) as made:
        await write(made, "in the file")
        intruder = sqlite3.connect(path)
        intruder.execute("DROP TABLE event")
        intruder.commit()
        intruder.close()
        second = await write(made, "in memory")
        assert second.seq == 2
        assert "memory" in made.problem
        assert await made.read() == (second,)


async def test_old_events_are_removed(tmp_path: Path) -> None:
    async with opened(tmp_path / "h", keep=10) as made:
        for n in range(history.PRUNE_EVERY):
            await write(made, str(n))
        kept = await made.read(limit=10_000)
    assert len(kept) == 10
    assert kept[-1].message == str(history.PRUNE_EVERY - 1)
