"""One connection between two agents: frames in and out of a TLS stream, with limits on time and memory."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from ovnmig import pki
from ovnmig.agent import frames
from ovnmig.agent.frames import Frame, FrameError, Kind
from ovnmig.pki import Identity, KeyFiles, PkiError

IDLE_S: Final = 10.0
"""Without a frame for so long, or with a peer that takes nothing for so long, the connection is dead."""
READ_BYTES: Final = 1 << 18


class LinkLost(Exception):
    """The connection ended, or the peer sent what cannot be; the text says what."""


class PeerRefused(Exception):
    """The peer answered ERROR. ``code`` is its code word."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Link:
    """Send and receive frames. One task may receive while another sends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = frames.Decoder()

    def peer(self) -> Identity:
        """Who the other side's certificate names. Raises PkiError."""
        return pki.parse_identity(self._writer.get_extra_info("ssl_object").getpeercert())

    async def receive(self, timeout_s: float = IDLE_S) -> Frame:
        """The next frame. Raises LinkLost at the end, on silence and on bytes that are no frame."""
        try:
            async with asyncio.timeout(timeout_s):
                while (frame := self._decoder.next()) is None:
                    data = await self._reader.read(READ_BYTES)
                    if not data:
                        cut = " in the middle of a frame" if self._decoder.incomplete else ""
                        raise LinkLost(f"the peer closed the connection{cut}")
                    self._decoder.feed(data)
        except TimeoutError:
            raise LinkLost(f"nothing came from the peer for {timeout_s:.0f} s") from None
        except OSError as error:
            raise LinkLost(f"the connection broke: {error}") from None
        if frame.kind is Kind.ERROR:
            raise PeerRefused(frame.text("code", 64), frame.text("reason"))
        return frame

    async def send(self, frame: Frame) -> None:
        """Send a frame; waits while the peer is slower. Raises LinkLost."""
        try:
            self._writer.write(frames.encode(frame))
            async with asyncio.timeout(IDLE_S):
                await self._writer.drain()
        except TimeoutError:
            raise LinkLost(f"the peer has taken nothing for {IDLE_S:.0f} s") from None
        except OSError as error:
            raise LinkLost(f"the connection broke: {error}") from None

    async def refuse(self, code: str, reason: str) -> None:
        """Say why this side closes, as well as that still goes, and close."""
        with suppress(LinkLost):  # when the peer is gone there is nobody to tell
            await self.send(Frame(Kind.ERROR, 0, {"code": code, "reason": reason}))
        await self.close()

    async def close(self) -> None:
        """Close; what was sent is flushed first as well as that goes."""
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


__all__ = ["IDLE_S", "FrameError", "Link", "LinkLost", "PeerRefused", "connect"]
