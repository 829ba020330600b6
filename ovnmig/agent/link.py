"""One connection between two agents: frames in and out of a TLS stream, with limits on time and memory."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Final

from ovnmig import pki
from ovnmig.agent import frames
from ovnmig.agent.frames import Frame, FrameError, Kind
from ovnmig.agent.room import Room
from ovnmig.pki import Identity, KeyFiles, PkiError

IDLE_S: Final = 10.0
"""Without a frame for so long, or with a peer that takes nothing for so long, the connection is dead."""
ALIVE_S: Final = 1.0
"""Whoever has sent nothing for so long says that it is alive: a dump may take longer than IDLE_S."""
SILENT_S: Final = 3.0
"""A peer that has said nothing for so long is a reason for an alarm."""
LINGER_S: Final = 0.3
READ_BYTES: Final = 1 << 18


class LinkLost(Exception):
    """The connection ended, or the peer sent what cannot be; the text says what."""


class LinkEnded(LinkLost):
    """The peer closed the connection between two frames, as it may."""


class PeerRefused(Exception):
    """The peer answered ERROR. ``code`` is its code word."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Link:
    """Send and receive frames. One task may receive while another sends.

    ``room`` is what all links together may hold in large frames: reading goes on only when there is room for
    the frame that has begun. What it took is given back with :meth:`done` or by the link's end.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, room: Room | None = None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = frames.Decoder()
        self._room = room or Room()
        self._taken = 0
        self._grants: deque[int] = deque()
        self._sent_at = self._heard_at = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the peer last said anything."""
        return time.monotonic() - self._heard_at

    def peer(self) -> Identity:
        """Who the other side's certificate names. Raises PkiError."""
        return pki.parse_identity(self._writer.get_extra_info("ssl_object").getpeercert())

    async def receive(self, timeout_s: float = IDLE_S) -> Frame:
        """The next frame that is more than a sign of life.

        Raises LinkLost at the end and on silence, FrameError on bytes that are no frame, PeerRefused.
        """
        while True:
            frame = await self._frame(timeout_s)
            self._heard_at = time.monotonic()
            if frame.kind is Kind.ERROR:
                raise PeerRefused(frame.text("code", 64), frame.text("reason"))
            if frame.kind is not Kind.ALIVE:
                return frame
            self._grants.pop()

    async def _frame(self, timeout_s: float) -> Frame:
        granted = 0
        try:
            async with asyncio.timeout(timeout_s) as limit:
                while (frame := self._decoder.next()) is None:
                    if self._decoder.due > READ_BYTES and not granted:
                        limit.reschedule(None)  # the others' frames are not this peer's fault
                        granted = await self._room.take(self._decoder.due)
                        self._taken += granted
                        limit.reschedule(asyncio.get_running_loop().time() + timeout_s)
                    data = await self._reader.read(READ_BYTES)
                    if not data:
                        if self._decoder.incomplete:
                            raise LinkLost("the peer closed the connection in the middle of a frame")
                        raise LinkEnded("the peer closed the connection")
                    self._decoder.feed(data)
        except TimeoutError:
            raise LinkLost(f"nothing came from the peer for {timeout_s:.0f} s") from None
        except OSError as error:
            raise LinkLost(f"the connection broke: {error}") from None
        self._grants.append(granted)
        return frame

    def done(self) -> None:
        """The frame that was received first is worked off: its room is free again."""
        granted = self._grants.popleft() if self._grants else 0
        self._taken -= granted
        self._room.give(granted)

    async def send(self, frame: Frame) -> None:
        """Send a frame; waits while the peer is slower. Raises LinkLost."""
        self._sent_at = time.monotonic()
        try:
            self._writer.write(frames.encode(frame))
            async with asyncio.timeout(IDLE_S):
                await self._writer.drain()
        except TimeoutError:
            raise LinkLost(f"the peer has taken nothing for {IDLE_S:.0f} s") from None
        except OSError as error:
            raise LinkLost(f"the connection broke: {error}") from None

    async def keep_alive(self) -> None:
        """Say so whenever nothing else was sent for ALIVE_S, until cancelled. Raises LinkLost."""
        while True:
            quiet_s = time.monotonic() - self._sent_at
            if quiet_s >= ALIVE_S:
                await self.send(Frame(Kind.ALIVE))
            await asyncio.sleep(max(ALIVE_S / 4, ALIVE_S - quiet_s))

    async def refuse(self, code: str, reason: str) -> None:
        """Say why this side closes, as well as that still goes, and close."""
        await self.end_with(Frame(Kind.ERROR, 0, {"code": code, "reason": reason}))

    async def end_with(self, frame: Frame) -> None:
        """Send a last frame and close. Bytes that were not read would reset the connection before the peer
        has read that frame, so for a moment they are thrown away."""
        with suppress(LinkLost, OSError, TimeoutError):  # when the peer is gone there is nobody to tell
            await self.send(frame)
            async with asyncio.timeout(LINGER_S):
                while await self._reader.read(READ_BYTES):
                    pass
        await self.close()

    async def close(self) -> None:
        """Close; what was sent is flushed first as well as that goes."""
        self._room.give(self._taken)
        self._taken = 0
        self._grants.clear()
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except TimeoutError:
            with suppress(AttributeError):  # the TLS transport fails so when it ended just now
                self._writer.transport.abort()
        except OSError:
            return  # broken before: closed enough


async def connect(files: KeyFiles, expected: Identity, host: str, port: int, timeout_s: float = 5.0) -> Link:
    """Connect to an agent's stream port; only ``expected`` gets a single byte. Raises LinkLost."""
    try:
        context = await asyncio.to_thread(pki.client_context, files, expected)
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=READ_BYTES)
    except TimeoutError:
        raise LinkLost(f"no connection to {expected} at {host}:{port} within {timeout_s:.0f} s") from None
    except (OSError, PkiError) as error:
        raise LinkLost(f"no connection to {expected} at {host}:{port}: {error}") from None
    return Link(reader, writer)


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first real cause of a group's end; what was cancelled because of it is no cause."""
    leaves = [first_cause(one) if isinstance(one, BaseExceptionGroup) else one for one in group.exceptions]
    return next((one for one in leaves if not isinstance(one, asyncio.CancelledError)), leaves[0])


__all__ = ["IDLE_S", "FrameError", "Link", "LinkLost", "PeerRefused", "connect", "first_cause"]
