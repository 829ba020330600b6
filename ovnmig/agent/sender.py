"""The sending end of a stream: numbers frames, keeps the window, matches answers to what they answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ovnmig.agent import frames
from ovnmig.agent.answers import not_applied
from ovnmig.agent.frames import Frame, FrameError, Kind
from ovnmig.agent.link import Link, LinkLost
from ovnmig.agent.tally import Tally
from ovnmig.conntrack import Batch, encode
from ovnmig.core.transfer import TransferOrder

WORK_S: Final = 120.0
"""A target that is alive and has answered nothing for so long is stuck."""
_ROWS: Final = 8192
"""Records in a frame; far below the limits of codec and frame, so that the window stays small in bytes."""


@dataclass(frozen=True, slots=True)
class _Sent:
    zone: str
    batch: Batch
    first: bool
    mode: str


class Sender:
    """One connection. :meth:`read_answers` must run beside the calls that send."""

    def __init__(self, link: Link, tally: Tally, order: TransferOrder, chassis: str) -> None:
        self._link = link
        self._tally = tally
        self._order = order
        self._chassis = chassis
        self._seq = 0
        self._waiting: dict[int, _Sent | None] = {}
        self._changed = asyncio.Event()
        self._synced: dict[int, Frame] = {}
        self._window = 1
        self.indexes: dict[str, int] = {}

    @property
    def pending(self) -> int:
        """Records sent and not answered."""
        return sum(len(sent.batch) for sent in self._waiting.values() if sent)

    async def greet(self, zones: list[Any]) -> list[str]:
        """HELLO and WELCOME; returns the wire names of zones that the target does not have."""
        hello = {
            "major": frames.MAJOR,
            "minor": frames.MINOR,
            "transfer": self._order.id,
            "udn": self._order.udn,
            "epoch": self._order.epoch,
            "chassis": self._chassis,
            "zones": zones,
            "keep": self._order.keep,
        }
        await self._link.send(Frame(Kind.HELLO, 0, hello))
        welcome = await self._link.receive()
        self._link.done()
        if welcome.kind is not Kind.WELCOME:
            raise FrameError(f"the answer to HELLO was {welcome.kind.name}")
        frames.check_version(welcome)
        indexes = welcome.fields.get("zones")
        if not isinstance(indexes, dict) or not all(type(one) is int for one in indexes.values()):
            raise FrameError("WELCOME has no usable 'zones'")
        self.indexes = indexes
        self._window = max(1, min(welcome.number("window"), 64))
        return [str(key) for key in welcome.items("missing")]

    async def entries(self, zone: str, batch: Batch, mode: str) -> None:
        """Send records; returns when they are on the wire, maybe before they are answered."""
        for part in batch.split(_ROWS):
            for chosen, first in zip(self._tally.fresh(zone, part), (True, False), strict=True):
                if len(chosen):
                    fields = {"zone": self.indexes[zone], "mode": mode}
                    await self._send(Kind.ENTRIES, fields, encode(chosen), _Sent(zone, chosen, first, mode))

    async def ended(self, zone: str, batch: Batch) -> None:
        """Send records of entries that ended on the source."""
        for part in batch.split(_ROWS):
            await self._send(Kind.DELETE, {"zone": self.indexes[zone], "form": "records"}, encode(part), None)

    async def ended_keys(self, zone: str, keys: bytes) -> None:
        """Send keys (8 bytes each) of entries that are no longer on the source."""
        await self._send(Kind.DELETE, {"zone": self.indexes[zone], "form": "keys"}, keys, None)

    async def ended_others(self, zone: str) -> None:
        """What the target holds and was not sent over this connection is no longer on the source."""
        await self._send(Kind.DELETE, {"zone": self.indexes[zone], "form": "others"}, b"", None)

    async def sync(self, number: int, *, verify: bool) -> Frame:
        """Ask the target to answer everything up to here (and to read its zones back); returns SYNCED."""
        seq = await self._send(Kind.SYNC, {"round": number, "verify": verify}, b"", None)
        await self._until(lambda: seq in self._synced)
        self._tally.synced_at = time.monotonic()
        return self._synced.pop(seq)

    async def settled(self) -> None:
        """Return when everything sent is answered."""
        await self._until(lambda: not self._waiting)

    def take_back(self) -> None:
        """The connection is gone: what was not answered counts as never sent."""
        for sent in self._waiting.values():
            if sent is not None and sent.first:
                self._tally.take_back(sent.zone, sent.batch)
        self._waiting.clear()

    async def read_answers(self) -> None:
        """Take answers until the connection ends, which it always reports by raising."""
        while True:
            frame = await self._link.receive()
            self._link.done()
            if frame.kind is Kind.RESYNC:
                raise LinkLost(f"the target asks to begin anew: {frame.text('reason')}")
            if frame.kind not in (Kind.ACK, Kind.SYNCED) or frame.seq not in self._waiting:
                raise FrameError(f"an answer {frame.kind.name} to {frame.seq} was not due")
            sent = self._waiting.pop(frame.seq)
            if frame.kind is Kind.SYNCED:
                self._synced[frame.seq] = frame
            elif sent is not None:
                over = sent.mode == "upgrade"
                self._tally.settle(sent.zone, sent.batch, sent.first, frame, not_applied(frame), over)
            self._changed.set()

    async def _send(self, kind: Kind, fields: dict[str, Any], data: bytes, sent: _Sent | None) -> int:
        await self._until(lambda: len(self._waiting) < self._window)
        self._seq += 1
        self._waiting[self._seq] = sent
        await self._link.send(Frame(kind, self._seq, fields, data))
        return self._seq

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            try:
                async with asyncio.timeout(WORK_S):
                    await self._changed.wait()
            except TimeoutError:
                raise LinkLost(f"the target has answered nothing for {WORK_S:.0f} s") from None
