"""The outside server: plays every kind of session and notes when data came and from where. Runs in `outside`.

Arguments: the result file and, if wanted, another pause between blocks of a download (seconds). Reads a word
a line on standard input: `stop` begins the planned end, `quit` writes the result and leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from devenv.demo.plan import SERVER_PORTS

CHUNK = bytes(range(256)) * 64
CHUNK_EVERY_S = 0.02
"""16 KiB each 20 ms: about 6.5 Mbit/s a download, far below what the guest's one processor can forward."""
PUSH_EVERY_S = 1.0


class Server:
    """All listening sockets and what they saw. Times are Unix seconds of the guest's one clock."""

    def __init__(self, chunk_every_s: float = CHUNK_EVERY_S) -> None:
        self.chunk_every_s = chunk_every_s
        self.stopping = asyncio.Event()
        self.connections: dict[str, dict[str, Any]] = {}
        self.datagrams: dict[str, dict[str, Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def opened(self, kind: str, writer: asyncio.StreamWriter) -> tuple[str, dict[str, Any]]:
        peer = writer.get_extra_info("peername")
        name = f"c{len(self.connections) + 1}"
        note: dict[str, Any] = {
            "kind": kind,
            "peer": [peer[0], peer[1]],
            "received": [],
            "error": "",
            "ended": False,
        }
        self.connections[name] = note
        return name, note

    async def play(self, kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, note = self.opened(kind, writer)
        talk = {"download": self.download, "push": self.push}.get(kind, self.answer)
        try:
            writer.write(f"{name}\n".encode())
            await talk(reader, writer, note)
            note["ended"] = True
        except (OSError, asyncio.IncompleteReadError) as error:
            note["error"] = f"{type(error).__name__}: {error}"
            note["error_at"] = time.time()
        finally:
            with contextlib.suppress(OSError):
                writer.close()

    async def download(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: dict[str, Any]
    ) -> None:
        """Blocks of a pattern, each after its length; length 0 ends it, then comes the checksum."""
        digest = hashlib.sha256()
        sent = 0
        due = time.monotonic()
        while not self.stopping.is_set():
            block = CHUNK[sent % 251 :]
            digest.update(block)
            writer.write(f"{len(block)}\n".encode() + block)
            await writer.drain()
            sent += len(block)
            due = max(due + self.chunk_every_s, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        note["sha256"] = digest.hexdigest()
        note["bytes"] = sent
        writer.write(f"0\n{note['sha256']}\n".encode())
        await writer.drain()
        await reader.read()

    async def push(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: dict[str, Any]
    ) -> None:
        """A line each second to a client that never sends a byte of payload."""
        number = 0
        while not self.stopping.is_set():
            number += 1
            writer.write(f"{number}\n".encode())
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), PUSH_EVERY_S)
        writer.write(b"end\n")
        await writer.drain()
        await reader.read()

    async def answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: dict[str, Any]
    ) -> None:
        """Each request line is answered with a line; `bye` is answered with `end`."""
        while line := await reader.readline():
            note["received"].append(time.time())
            writer.write(b"end\n" if line == b"bye\n" else b"ok " + line)
            await writer.drain()
            if line == b"bye\n":
                await reader.read()
                return
        raise ConnectionError("the client closed without saying bye")

    async def start(self) -> None:
        for kind, port in SERVER_PORTS.items():
            if kind == "udp":
                loop = asyncio.get_running_loop()
                for host in ("0.0.0.0", "::"):
                    await loop.create_datagram_endpoint(
                        partial(Echo, self), local_addr=(host, port), reuse_port=True
                    )
            else:
                await asyncio.start_server(
                    partial(self.play, kind), None, port, reuse_address=True, backlog=64
                )


class Echo(asyncio.DatagramProtocol):
    """Sends every datagram back and notes who sent it: payload is `<session> <number>`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.transport: asyncio.DatagramTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    @override
    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        assert self.transport is not None
        self.transport.sendto(data, addr)
        name = data.split(b" ", 1)[0].decode(errors="replace")
        note = self.server.datagrams.setdefault(name, {"received": [], "peers": []})
        note["received"].append(time.time())
        if [addr[0], addr[1]] not in note["peers"]:
            note["peers"].append([addr[0], addr[1]])


async def main(chunk_every_s: float = CHUNK_EVERY_S) -> dict[str, Any]:
    """Serve until `quit`; returns what was noted."""
    server = Server(chunk_every_s)
    await server.start()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while (word := (await loop.run_in_executor(None, sys.stdin.readline)).strip()) not in ("quit", ""):
        if word == "stop":
            server.stopping.set()
    return {"connections": server.connections, "datagrams": server.datagrams}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asyncio.run(main(*map(float, sys.argv[2:])))))
