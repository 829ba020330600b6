"""The TLS port where other agents stream sessions to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from ovnmig import pki
from ovnmig.agent.faults import Faults
from ovnmig.agent.link import READ_BYTES, Link
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.roles import Roles
from ovnmig.agent.room import Room
from ovnmig.agent.sink import Sink
from ovnmig.agent.store import Copies, Fence
from ovnmig.agent.worker import Worker
from ovnmig.pki import KeyFiles

_log = logging.getLogger(__name__)
MAX_STREAMS: Final = 256


class StreamServer:
    """Serves one :class:`Sink` per connection. ``active`` is the number of streams now."""

    def __init__(
        self,
        files: KeyFiles,
        chassis: str,
        view: Callable[[], LocalView],
        copies: Copies,
        fence: Fence,
        roles: Roles | None = None,
        faults: Faults | None = None,
    ) -> None:
        self._files = files
        self._chassis = chassis
        self._view = view
        self._copies = copies
        self._fence = fence
        self._roles = roles or Roles(Fence())
        self.faults = faults or Faults()
        self._room = Room()
        self.active = 0
        self.applied = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen while the block runs; gives the port (0 asks for any). Raises OSError when it is taken."""
        context = await asyncio.to_thread(pki.server_context, self._files)
        server = await asyncio.start_server(
            self._serve, host, port, ssl=context, limit=READ_BYTES, ssl_handshake_timeout=10
        )
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()

    async def _serve(self, incoming: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(incoming, writer, self._room)
        if self.active >= MAX_STREAMS:
            await link.refuse("internal", f"{MAX_STREAMS} streams are open already")
            return
        self.active += 1
        try:
            async with Worker("sink") as worker, Worker("sink-reader") as reader:
                sink = Sink(self._chassis, self._view, self._copies, self._fence, worker, reader, self._roles)
                try:
                    end = await sink.serve(link)
                except Exception:
                    _log.exception("a stream for UDN %r ended by a fault of this agent", sink.udn)
                    self.faults.note("sink", "internal", f"a stream for UDN {sink.udn!r}: see the log")
                    await link.refuse("internal", "the receiving agent failed: see its log")
                else:
                    _log.info("a stream for UDN %r ended: %s", sink.udn, end)
                    if sink.fault:
                        self.faults.note("sink", sink.fault, f"a stream for UDN {sink.udn!r}: {end}")
                self.applied += sink.applied
        except OSError as error:
            _log.error("no conntrack socket for a stream: %s", error)
            await link.refuse("internal", f"the receiving agent has no conntrack socket: {error}")
        finally:
            self.active -= 1
