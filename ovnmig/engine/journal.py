"""The engine's pen: events go to the history, and whoever follows is woken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from ovnmig.core.migration import MigrationRecord
from ovnmig.engine.protocols import Clock, History, JournalEvent

PAGE = 500


class Journal:
    """Writes events and lets many readers follow them. A history that cannot be written stops nothing:
    sessions do not depend on it; :attr:`problem` says so to the health check."""

    def __init__(self, history: History, clock: Clock) -> None:
        self._history = history
        self._clock = clock
        self._first = 1
        self._last: int | None = None
        self._news = asyncio.Event()
        self.problem = ""

    async def write(
        self,
        kind: str,
        message: str,
        *,
        udn: str = "",
        migration: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Append one event now."""
        try:
            event = await self._history.append(
                at=self._clock.now(),
                kind=kind,
                udn=udn,
                migration=migration,
                message=message,
                details=details or {},
            )
        except Exception as error:  # Whatever the history's store raises, migrations go on.
            self.problem = f"the history cannot be written: {error}"
            return
        self.problem = ""
        if self._last is None:
            self._first = event.seq
        self._last = event.seq
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def keep(self, record: MigrationRecord) -> None:
        """Keep an ended migration for longer than its UDN's record does."""
        try:
            await self._history.keep(record)
        except Exception as error:  # As above.
            self.problem = f"the history cannot be written: {error}"

    async def kept(self, migration_id: str) -> MigrationRecord | None:
        """The ended migration of that id; ``None``: not known to this controller's history."""
        return await self._history.kept(migration_id)

    async def all_kept(self, udn: str | None) -> tuple[MigrationRecord, ...]:
        """The newest ended migrations (of one UDN)."""
        return await self._history.all_kept(udn=udn)

    async def follow(self, after: int | None, follow: bool) -> AsyncIterator[JournalEvent]:
        """Events after number ``after`` (``None``: only what is new), then live ones if ``follow``."""
        if after is None:
            if not follow:
                return
            after = self._last
            if after is None:
                await self._news.wait()
                after = self._first - 1
        while True:
            news = self._news
            page = await self._history.read(after=after, limit=PAGE)
            for event in page:
                after = event.seq
                yield event
            if len(page) == PAGE:
                continue
            if not follow:
                return
            await news.wait()
