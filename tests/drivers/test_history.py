from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ovnmig.core.migration import MigrationRecord, Phase
from ovnmig.drivers import history
from ovnmig.drivers.history import SqliteHistory
from ovnmig.engine.protocols import History, JournalEvent
from tests.core.machine import a_record


@asynccontextmanager
async def opened(path: Path, **keep: int) -> AsyncIterator[SqliteHistory]:
    made = SqliteHistory(path, **keep)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def ended(name: str, udn: str = 'blü "net"', created_at: float = 100.0) -> MigrationRecord:
    return replace(a_record(), id=name, udn=udn, created_at=created_at, phase=Phase.COMPLETED)


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


async def test_ended_migrations_are_found_again_whole_and_listed_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "h"
    first, second, other = ended("m1"), ended("m2", created_at=200.0), ended("m3", "red", 150.0)
    async with opened(path) as made:
        for record in (first, second, other, replace(first, reason="seen again")):
            await made.keep(record)
    async with opened(path) as again:
        assert await again.kept("m1") == replace(first, reason="seen again")
        assert await again.kept("m4") is None
        assert [one.id for one in await again.all_kept()] == ["m2", "m3", "m1"]
        assert [one.id for one in await again.all_kept(udn='blü "net"', limit=1)] == ["m2"]
        assert await again.all_kept(udn="m1") == ()


async def test_only_the_newest_migrations_are_kept(tmp_path: Path) -> None:
    async with opened(tmp_path / "h", keep_migrations=3) as made:
        for number in range(10):
            await made.keep(ended(f"m{number}", created_at=float(number)))
        assert [one.id for one in await made.all_kept()] == ["m9", "m8", "m7"]


async def test_migrations_are_kept_in_memory_while_the_file_takes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        await made.keep(ended("m1"))
        await made.keep(ended("m2", "red"))
        assert await made.kept("m1") == ended("m1")
        assert [one.id for one in await made.all_kept(udn="red")] == ["m2"]


async def test_a_file_that_lost_its_table_forgets_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "h"
    async with opened(path) as made:
        await made.keep(ended("m1"))
        with sqlite3.connect(path) as intruder:
            intruder.execute("DROP TABLE migration")
        intruder.close()
        assert await made.kept("m1") is None
        assert "cannot be read" in made.problem
        await made.keep(ended("m2"))
        assert await made.kept("m2") is not None


async def test_a_file_of_an_earlier_release_learns_to_keep_migrations(tmp_path: Path) -> None:
    path = tmp_path / "h"
    async with opened(path) as made:
        await write(made, "old")
    with sqlite3.connect(path) as earlier:
        earlier.execute("DROP TABLE migration")
    earlier.close()
    async with opened(path) as again:
        await again.keep(ended("m1"))
        assert [e.message for e in await again.read()] == ["old"]
        assert await again.kept("m1") == ended("m1")


async def test_a_migration_that_cannot_be_read_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    path = tmp_path / "h"
    async with opened(path) as made:
        for name in ("m1", "m2"):
            await made.keep(ended(name))
        with sqlite3.connect(path) as intruder:
            intruder.execute("UPDATE migration SET record = '{}' WHERE id = 'm1'")
        intruder.close()
        assert await made.kept("m1") is None
        assert [one.id for one in await made.all_kept()] == ["m2"]
        assert made.problem == ""
