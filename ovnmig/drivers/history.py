"""History in an embedded SQLite file, driven from one thread of its own: events, and every ended migration.
Losing it loses no session.

Nothing here ever stops a migration: a damaged file is set aside and a new one started, and while the disk
refuses, the newest events are kept in memory. Both are said in :attr:`SqliteHistory.problem` and in the log.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import structlog

from ovnmig.core.codec import CodecError, from_plain, to_plain
from ovnmig.core.migration import MigrationRecord
from ovnmig.engine.protocols import JournalEvent

Result = TypeVar("Result")

KEEP = 100_000
"""Events kept in the file; older ones are removed now and then."""
PRUNE_EVERY = 1_000
IN_MEMORY = 10_000
KEEP_MIGRATIONS = 10_000
"""Ended migrations kept in the file, the newest ones."""
BUSY_TIMEOUT_S = 5.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    udn TEXT NOT NULL,
    migration TEXT NOT NULL,
    message TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS event_migration ON event (migration, seq);
CREATE TABLE IF NOT EXISTS migration (
    id TEXT PRIMARY KEY,
    udn TEXT NOT NULL,
    created_at REAL NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS migration_created ON migration (created_at);
"""
_COLUMNS = "seq, at, kind, udn, migration, message, details"
_INSERT = f"INSERT INTO event ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_KEEP = "INSERT OR REPLACE INTO migration (id, udn, created_at, record) VALUES (?, ?, ?, ?)"
_FORGET = """
DELETE FROM migration WHERE created_at <=
    (SELECT created_at FROM migration ORDER BY created_at DESC LIMIT 1 OFFSET ?)
"""
_log = structlog.get_logger("ovnmig.history")


def _event(row: tuple[int, float, str, str, str, str, str]) -> JournalEvent:
    seq, at, kind, udn, migration, message, details = row
    return JournalEvent(seq, at, kind, udn, migration, message, json.loads(details))


def _record(text: str) -> MigrationRecord | None:
    try:
        return from_plain(MigrationRecord, json.loads(text))
    except (CodecError, ValueError) as error:
        _log.warning("a migration in the history cannot be read", error=str(error))
        return None


class SqliteHistory:
    """Implements :class:`ovnmig.engine.protocols.History`. Call :meth:`start` first, :meth:`close` last."""

    def __init__(self, path: Path, *, keep: int = KEEP, keep_migrations: int = KEEP_MIGRATIONS) -> None:
        self.path = path
        self.problem = ""
        """What is wrong with the file, in words; empty when all is well."""
        self._keep = keep
        self._keep_migrations = keep_migrations
        self._database: sqlite3.Connection | None = None
        self._memory: deque[JournalEvent] = deque(maxlen=IN_MEMORY)
        self._kept: dict[str, MigrationRecord] = {}
        self._last = 0
        self._appended = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="history")

    async def start(self) -> None:
        """Open the file; a damaged one is renamed to ``<name>.damaged-<n>`` and a new one started."""
        await self._run(self._open)

    async def close(self) -> None:
        """Close the file and end the thread."""
        await self._run(self._close)
        self._thread.shutdown(wait=False)  # nothing is queued any more; waiting would block the loop

    async def append(
        self, *, at: float, kind: str, udn: str, migration: str, message: str, details: Mapping[str, object]
    ) -> JournalEvent:
        """Append one event. Never fails: what cannot be written to the file is kept in memory."""
        text = json.dumps(details, ensure_ascii=False, sort_keys=True, default=str)
        return await self._run(lambda: self._append((at, kind, udn, migration, message, text)))

    async def read(
        self, *, after: int = 0, limit: int = 1000, migration: str | None = None
    ) -> tuple[JournalEvent, ...]:
        """Events after ``after`` in order. A number from a lost file (beyond the last event) reads from
        the start."""
        return await self._run(lambda: self._read(after, limit, migration))

    async def keep(self, record: MigrationRecord) -> None:
        """Keep an ended migration. Never fails, as :meth:`append`."""
        await self._run(lambda: self._keep_migration(record))

    async def kept(self, migration_id: str) -> MigrationRecord | None:
        """The ended migration of that id; ``None``: not in this file."""
        found = await self._run(lambda: self._migrations("id", migration_id, 1))
        return found[0] if found else None

    async def all_kept(self, *, udn: str | None = None, limit: int = 1000) -> tuple[MigrationRecord, ...]:
        """The newest ended migrations (of one UDN), the newest first."""
        return await self._run(lambda: self._migrations("udn", udn, limit))

    async def last(self) -> int:
        """Number of the newest event; 0 when there is none."""
        return await self._run(lambda: self._last)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> None:
        try:
            self._connect()
        except sqlite3.OperationalError as error:
            self._give_up("cannot be opened", error)  # permissions, full disk, locked: the file may be fine
        except (sqlite3.DatabaseError, OSError) as error:
            self._set_aside(error)

    def _connect(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_S
        )
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(str(verdict))
            database.executescript(_SCHEMA)
            (last,) = database.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()
        except BaseException:
            database.close()
            raise
        self._database, self._last = database, max(self._last, int(last))

    def _set_aside(self, cause: Exception) -> None:
        aside = next(p for n in range(1, 10_000) if not (p := Path(f"{self.path}.damaged-{n}")).exists())
        try:
            if self.path.exists():
                self.path.rename(aside)
            for suffix in ("-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            self._connect()
        except (sqlite3.Error, OSError) as error:
            self._give_up("cannot be made anew", error)
            return
        self.problem = (
            f"the history file was damaged ({cause}); it was set aside as {aside}, a new one was started"
        )
        _log.warning("history set aside", file=str(aside), cause=str(cause))

    def _give_up(self, what: str, error: Exception) -> None:
        self.problem = f"the history file {self.path} {what} ({error}); new events are kept in memory only"
        _log.error("history in memory only", file=str(self.path), error=str(error))
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _append(self, values: tuple[float, str, str, str, str, str]) -> JournalEvent:
        seq = self._last + 1
        if self._database is not None:
            try:
                self._database.execute(_INSERT, (seq, *values))
                self._appended += 1
                if self._appended % PRUNE_EVERY == 0:
                    self._database.execute("DELETE FROM event WHERE seq <= ?", (seq - self._keep,))
            except sqlite3.Error as error:
                self._give_up("cannot be written", error)
        self._last = seq
        event = _event((seq, *values))
        if self._database is None:
            self._memory.append(event)
        return event

    def _read(self, after: int, limit: int, migration: str | None) -> tuple[JournalEvent, ...]:
        start = 0 if after > self._last else after
        found: list[JournalEvent] = []
        if self._database is not None:
            where, values = ("", ()) if migration is None else (" AND migration = ?", (migration,))
            query = f"SELECT {_COLUMNS} FROM event WHERE seq > ?{where} ORDER BY seq LIMIT ?"  # noqa: S608
            try:
                found = [_event(row) for row in self._database.execute(query, (start, *values, limit))]
            except sqlite3.Error as error:
                self._give_up("cannot be read", error)
        found += [e for e in self._memory if e.seq > start and migration in (None, e.migration)]
        return tuple(found[:limit])

    def _keep_migration(self, record: MigrationRecord) -> None:
        text = json.dumps(to_plain(record), ensure_ascii=False, sort_keys=True)
        if self._database is not None:
            try:
                self._database.execute(_KEEP, (record.id, record.udn, record.created_at, text))
                self._database.execute(_FORGET, (self._keep_migrations,))
            except sqlite3.Error as error:
                self._give_up("cannot be written", error)
        if self._database is None:
            self._kept[record.id] = record
            while len(self._kept) > IN_MEMORY:
                del self._kept[next(iter(self._kept))]

    def _migrations(self, column: str, value: str | None, limit: int) -> tuple[MigrationRecord, ...]:
        found: dict[str, MigrationRecord] = {}
        if self._database is not None:
            where, values = ("", ()) if value is None else (f"WHERE {column} = ?", (value,))
            query = f"SELECT record FROM migration {where} ORDER BY created_at DESC LIMIT ?"  # noqa: S608
            try:
                rows = self._database.execute(query, (*values, limit)).fetchall()
            except sqlite3.Error as error:
                self._give_up("cannot be read", error)
                rows = []
            found = {record.id: record for (text,) in rows if (record := _record(text)) is not None}
        found |= {one.id: one for one in self._kept.values() if value in (None, getattr(one, column))}
        return tuple(sorted(found.values(), key=lambda record: -record.created_at)[:limit])

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
