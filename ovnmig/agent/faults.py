"""Faults of streams, counted for the metrics and told as alarms: what broke, with whom, how often."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

RECENT_S: Final = 60.0
"""A fault of a stream that came in is told so long; nobody says here whether it was mended."""


@dataclass(frozen=True, slots=True)
class _Fault:
    at: float
    words: str


class Faults:
    """``counts`` goes by side (``source``, ``sink``) and kind: cut, gap, format, or the code of a refusal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], _Fault] = {}
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, side: str, kind: str, words: str) -> None:
        """A stream broke."""
        self.counts[side, kind] += 1
        self._last[side, kind] = _Fault(self._clock(), words)

    def alarms(self) -> tuple[str, ...]:
        """The last fault of each kind of incoming streams, in words. Cuts are told by their source."""
        limit = self._clock() - RECENT_S
        return tuple(
            f"an incoming stream ended by a fault ({kind}, {self.counts[side, kind]} so far): {fault.words}"
            for (side, kind), fault in sorted(self._last.items(), key=lambda item: item[1].at)
            if side == "sink" and kind != "cut" and fault.at > limit
        )
