"""The outside end of the soak's sessions: answers every kind of them until `quit`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, cast

from typing_extensions import override

PORTS = {"echo": 7021, "short": 7021, "push": 7022, "download": 7023, "udp": 7024}
CALM_S = 5.0
"""Over how long the sessions are opened first."""
BLOCK = bytes(range(256)) * 16
BLOCK_EVERY_S = 0.25
LINE_EVERY_S = 0.5


class Echo(asyncio.DatagramProtocol):
    """Sends every datagram back, with the sender's address and port as seen from here."""

    transport: asyncio.DatagramTransport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    @override
    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self.transport.sendto(b"%s %s" % (data, f"{addr[0]} {addr[1]}".encode()), addr)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each line is answered with its hash."""
    while line := await reader.readline():
        writer.write(f"{hashlib.sha256(line.strip()).hexdigest()}\n".encode())
        await writer.drain()


async def push(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A numbered line at a time until the client closes its direction; then the end."""
    number = 0
    while not reader.at_eof():
        number += 1
        writer.write(f"{number}\n".encode())
        await writer.drain()
        await asyncio.sleep(LINE_EVERY_S)
    writer.write(b"end\n")
    await writer.drain()


async def download(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Blocks after their lengths until the client closes its direction; then length 0 and the checksum."""
    digest = hashlib.sha256()
    number = 0
    while not reader.at_eof():
        number += 1
        block = BLOCK[number % 251 :]
        digest.update(block)
        writer.write(f"{len(block)}\n".encode() + block)
        await writer.drain()
        await asyncio.sleep(BLOCK_EVERY_S)
    writer.write(f"0\n{digest.hexdigest()}\n".encode())
    await writer.drain()


async def connected(
    kind: str, errors: Counter[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection to its end. An error here is the client's too, who tells of it; here it is counted."""
    talk = {"push": push, "download": download}.get(kind, echo)
    try:
        await talk(reader, writer)
    except OSError as error:
        errors[f"{kind}: {type(error).__name__}"] += 1
    finally:
        with contextlib.suppress(OSError):
            writer.close()


@contextlib.asynccontextmanager
async def listening(ports: Mapping[str, int], errors: Counter[str]) -> AsyncIterator[None]:
    """Every kind is answered inside the block, at its port and in both families."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        for kind, port in ports.items():
            if kind == "udp":
                for host in ("0.0.0.0", "::"):
                    transport, _ = await loop.create_datagram_endpoint(
                        Echo, local_addr=(host, port), reuse_port=True
                    )
                    stack.callback(transport.close)
            elif kind != "short":
                server = await asyncio.start_server(
                    partial(connected, kind, errors), None, port, reuse_address=True, backlog=256
                )
                stack.callback(server.close)
        yield


async def serve() -> dict[str, Any]:
    """Answers until `quit`; returns how many connections ended in an error, by kind."""
    errors: Counter[str] = Counter()
    async with listening(PORTS, errors):
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        while (await loop.run_in_executor(None, sys.stdin.readline)).strip() not in ("quit", ""):
            continue
    return {"errors": errors}
