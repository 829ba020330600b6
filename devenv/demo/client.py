"""The sessions of one VM: opens them, keeps them busy, notes when data came. Runs in the VM's namespace.

Arguments: a JSON file (`{"servers": {"4": ADDRESS, "6": ADDRESS}, "sessions": [...]}`) and the result file.
Prints `ready` once every session is open; `stop` on standard input begins the planned end, `quit` writes the
result.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

from typing_extensions import override

REQUEST_EVERY_S = 0.1
UDP_EVERY_S = 0.02


class Client:
    """All sessions of one VM and what they noted. Times are Unix seconds of the guest's one clock."""

    def __init__(self, servers: dict[str, str], sessions: list[dict[str, Any]]) -> None:
        self.servers = servers
        self.sessions = sessions
        self.stopping = asyncio.Event()
        self.notes: dict[str, dict[str, Any]] = {}

    async def connect(self, session: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = self.servers[str(session["family"])]
        family = socket.AF_INET if session["family"] == 4 else socket.AF_INET6
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        sock.bind(("" if family == socket.AF_INET else "::", session["source_port"]))
        await asyncio.wait_for(
            asyncio.get_running_loop().sock_connect(sock, (host, session["server_port"])), 15
        )
        return await asyncio.open_connection(sock=sock)

    async def open(self, group: asyncio.TaskGroup, session: dict[str, Any]) -> asyncio.Task[None]:
        note: dict[str, Any] = {"received": [], "sent": [], "error": "", "ended": False, "connection": ""}
        self.notes[session["name"]] = note
        if session["kind"] == "udp":
            return group.create_task(self.udp(session, note))
        reader, writer = await self.connect(session)
        note["local"] = list(writer.get_extra_info("sockname")[:2])
        note["connection"] = (await asyncio.wait_for(reader.readline(), 15)).decode().strip()
        talk = {"download": self.download, "push": self.push}.get(session["kind"], self.ask)
        return group.create_task(self.guarded(talk, reader, writer, note))

    async def guarded(
        self, talk: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: dict[str, Any]
    ) -> None:
        try:
            await talk(reader, writer, note)
            note["ended"] = True
        except (OSError, EOFError, ValueError) as error:
            note["error"] = f"{type(error).__name__}: {error}"
            note["error_at"] = time.time()
        finally:
            writer.close()

    async def download(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: dict[str, Any]
    ) -> None:
        digest = hashlib.sha256()
        total = 0
        while length := int(await reader.readline()):
            digest.update(await reader.readexactly(length))
            total += length
            note["received"].append(time.time())
        told = (await reader.readline()).decode().strip()
        note["bytes"], note["sha256"], note["checksum_right"] = (
            total,
            digest.hexdigest(),
            told == digest.hexdigest(),
        )

    async def push(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: dict[str, Any]
    ) -> None:
        while (line := await reader.readline()) != b"end\n":
            if not line:
                raise EOFError("closed before the planned end")
            note["received"].append(time.time())

    async def ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: dict[str, Any]
    ) -> None:
        number = 0
        while True:
            number += 1
            stopping = self.stopping.is_set()
            writer.write(b"bye\n" if stopping else f"{number}\n".encode())
            await writer.drain()
            line = await reader.readline()
            if not line:
                raise EOFError("closed before the planned end")
            note["received"].append(time.time())
            if stopping:
                return
            await asyncio.sleep(REQUEST_EVERY_S)

    async def udp(self, session: dict[str, Any], note: dict[str, Any]) -> None:
        family = socket.AF_INET if session["family"] == 4 else socket.AF_INET6
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: Replies(note),
            remote_addr=(self.servers[str(session["family"])], session["server_port"]),
            family=family,
        )
        note["local"] = list(transport.get_extra_info("sockname")[:2])
        number = 0
        due = time.monotonic()
        while not self.stopping.is_set():
            number += 1
            transport.sendto(f"{session['name']} {number}".encode())
            due = max(due + UDP_EVERY_S, time.monotonic() - 0.1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.sleep(0.2)
        note["ended"] = True
        transport.close()


class Replies(asyncio.DatagramProtocol):
    """Notes the time of every reply; an ICMP error only counts as an error noted, the sender goes on."""

    def __init__(self, note: dict[str, Any]) -> None:
        self.note = note

    @override
    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.note["received"].append(time.time())

    @override
    def error_received(self, exc: Exception) -> None:
        self.note["error"] = f"{type(exc).__name__}: {exc}"


async def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Play the sessions asked for until `quit`; returns what was noted of each."""
    client = Client(asked["servers"], asked["sessions"])
    async with asyncio.TaskGroup() as group:
        tasks = [await client.open(group, session) for session in client.sessions]
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        while (word := (await loop.run_in_executor(None, sys.stdin.readline)).strip()) not in ("quit", ""):
            if word == "stop":
                client.stopping.set()
        for task in tasks:
            task.cancel()
    return client.notes


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))))
