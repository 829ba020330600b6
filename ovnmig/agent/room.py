"""Room for large frames, shared by all streams of an agent: a peer with many of them cannot fill memory."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

ROOM_BYTES: Final = 32 << 20
"""Two of the largest frames at once; a frame as agents send it takes a fifth of a megabyte."""


class Room:
    """Bytes that may be held. Who asks first is served first; one that asks for more than all gets all."""

    def __init__(self, total: int = ROOM_BYTES) -> None:
        self._total = total
        self._free = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def free(self) -> int:
        """Bytes that nobody holds."""
        return self._free

    async def take(self, size: int) -> int:
        """Wait until there is room for ``size`` bytes and hold them; returns how many are held."""
        wanted = min(size, self._total)
        if not self._waiting and wanted <= self._free:
            self._free -= wanted
            return wanted
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (wanted, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:
                self.give(wanted)
            self._serve()
            raise
        return wanted

    def give(self, size: int) -> None:
        """Let go of bytes that were taken."""
        self._free = min(self._total, self._free + size)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] <= self._free):
            wanted, turn = self._waiting.popleft()
            if not turn.done():
                self._free -= wanted
                turn.set_result(None)
