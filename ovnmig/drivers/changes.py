"""A counter of changes, raised in a thread and awaited on the event loop."""

from __future__ import annotations

import asyncio
import threading


class Changes:
    """``count`` grows with every batch of changes; :meth:`wait` returns when it is past what the caller has
    seen."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def note(self) -> None:
        """Something changed. Callable from any thread; never blocks on the event loop."""
        with self._lock:
            self.count += 1
            waiting, self._waiting = self._waiting, {}
        for event, loop in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self, seen: int, timeout_s: float) -> bool:
        """True as soon as ``count`` differs from ``seen``, False at the time-out."""
        event = asyncio.Event()
        with self._lock:
            if self.count != seen:
                return True
            self._waiting[event] = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                return await event.wait()
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.pop(event, None)
