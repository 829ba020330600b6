"""A clock that tests turn, and waits that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

IDLE_ROUNDS = 60


class ManualClock:
    """Time stands still until :meth:`turn` lets everybody run and jumps to the next wake-up."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, delay_s: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self._now + delay_s, future)
        self._sleepers.append(entry)
        try:
            await future
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    async def settle(self) -> None:
        """Let every task run until all of them wait."""
        for _ in range(IDLE_ROUNDS):
            await asyncio.sleep(0)

    async def turn(self, until: float | None = None) -> bool:
        """Settle, then jump to the next wake-up (not beyond ``until``) and settle. False when nobody sleeps
        that short."""
        await self.settle()
        waiting = [at for at, future in self._sleepers if not future.done()]
        due = min(waiting, default=None)
        if due is None or (until is not None and due > until):
            if until is not None:
                self._now = max(self._now, until)
            return False
        self._now = max(self._now, due)
        for at, future in list(self._sleepers):
            if at <= self._now and not future.done():
                future.set_result(None)
        await self.settle()
        return True

    async def pass_time(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self._now + seconds
        while await self.turn(end):
            pass
        self._now = end

    async def until(self, condition: Callable[[], bool], limit: int = 3000) -> None:
        """Turn until ``condition`` holds."""
        for _ in range(limit):
            await self.settle()
            if condition():
                return
            await self.turn()
        raise AssertionError("it never came to that")


class Changing:
    """Wakes whoever waits for a change, or whoever waited long enough."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def changed(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, timeout_s: float) -> bool:
        event = self._event
        sleep: asyncio.Task[Any]
        async with asyncio.TaskGroup() as group:
            sleep = group.create_task(self._clock.sleep(timeout_s))
            news = group.create_task(event.wait())
            await asyncio.wait({sleep, news}, return_when=asyncio.FIRST_COMPLETED)
            sleep.cancel()
            news.cancel()
        return event.is_set()
