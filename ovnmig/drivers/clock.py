"""Real time."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Implements :class:`ovnmig.engine.protocols.Clock`."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    async def sleep(self, delay_s: float) -> None:
        """Sleep; negative delays return at once."""
        await asyncio.sleep(max(0.0, delay_s))
