"""A connection to one bridge's management socket that stays open: packet-out, flow monitors, flows.

An open connection matters: starting a program for it costs more than the whole move of a gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from ovnmig.agent import openflow
from ovnmig.agent.openflow import FlowMod, FlowUpdate, Message, OpenFlowError, Type

_ANSWER_TIMEOUT_S = 5.0
_READ = 1 << 16


class Switch:
    """An established connection. Use :func:`connect`, and have :meth:`run` run beside the other calls."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.version = openflow.VERSIONS[-1]
        self._reader = reader
        self._writer = writer
        self._xid = 1
        self._buffer = bytearray()
        self._barriers: dict[int, asyncio.Event] = {}

    def _next_xid(self) -> int:
        self._xid = self._xid % 0x7FFFFFFF + 1
        return self._xid

    async def run(self, changed: Callable[[FlowUpdate], None] | None = None) -> None:
        """Read until the connection ends: flow updates go to ``changed``, echo requests are answered.

        Always ends by raising OpenFlowError: the switch refused something or went away.
        """
        while True:
            for message in await self._read():
                if message.type == Type.MULTIPART_REPLY and changed is not None:
                    for update in openflow.flow_updates(message):
                        changed(update)
                elif message.type == Type.BARRIER_REPLY and message.xid in self._barriers:
                    self._barriers.pop(message.xid).set()

    async def monitor(self, addresses: Iterable[IPv4Address | IPv6Address]) -> None:
        """Ask for the flows to these destinations; :meth:`run` then gives them, present ones first."""
        for number, address in enumerate(addresses):
            request = openflow.monitor_destination(self.version, self._next_xid(), number, address)
            self._writer.write(request)
        await self._writer.drain()

    async def send(self, in_port: int, frames: Iterable[bytes]) -> None:
        """Inject frames at a port and return once the switch has taken them. Raises OpenFlowError."""
        for frame in frames:
            self._writer.write(openflow.packet_out(self.version, self._next_xid(), in_port, frame))
        await self.barrier()

    async def change(self, flows: Iterable[FlowMod]) -> None:
        """Add and delete flows and return once it is done. Raises OpenFlowError."""
        for flow in flows:
            self._writer.write(openflow.flow_mod(self.version, self._next_xid(), flow))
        await self.barrier()

    async def barrier(self) -> None:
        """Return once the switch has answered everything asked before. Raises OpenFlowError."""
        barrier = self._next_xid()
        done = self._barriers[barrier] = asyncio.Event()
        self._writer.write(openflow.pack(self.version, Type.BARRIER_REQUEST, barrier))
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                await self._writer.drain()
                await done.wait()
        except TimeoutError:
            raise OpenFlowError(f"the bridge did not answer within {_ANSWER_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise OpenFlowError(f"the bridge closed the connection: {error}") from None

    async def _read(self) -> list[Message]:
        """The next messages but echo requests and errors, which are dealt with here."""
        try:
            data = await self._reader.read(_READ)
        except OSError as error:
            raise OpenFlowError(f"the bridge closed the connection: {error}") from None
        if not data:
            raise OpenFlowError("the bridge closed the connection")
        self._buffer += data
        out = []
        for message in openflow.split(self._buffer):
            if message.type == Type.ECHO_REQUEST:
                self._writer.write(openflow.pack(self.version, Type.ECHO_REPLY, message.xid, message.body))
            elif message.type == Type.ERROR:
                raise OpenFlowError(openflow.error_text(message))
            else:
                out.append(message)
        return out

    async def greet(self) -> None:
        """Agree on a version; :func:`connect` does it."""
        self._writer.write(openflow.hello(self._next_xid()))
        while True:
            for message in await self._read():
                if message.type == Type.HELLO:
                    self.version = openflow.agree(message)
                    return


@asynccontextmanager
async def connect(socket: Path) -> AsyncIterator[Switch]:
    """Connect to ``<rundir>/<bridge>.mgmt``. Raises OpenFlowError naming the socket and what to look at."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
    except OSError as error:
        raise OpenFlowError(
            f"cannot connect to {socket} ({error.strerror}): "
            "is ovs-vswitchd running, and is this its run directory?"
        ) from None
    try:
        switch = Switch(reader, writer)
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                await switch.greet()
        except TimeoutError:
            raise OpenFlowError(f"{socket} did not greet within {_ANSWER_TIMEOUT_S:.0f} s") from None
        yield switch
    finally:
        writer.close()
