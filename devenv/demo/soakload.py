"""The soak's sessions in a VM: of all kinds, opening and closing all the time, each checked to its end.

Arguments: `server RESULT` or `client ORDER RESULT`, where ORDER is a JSON file: `{"vm", "servers",
"sessions", "new_per_s", "probes", "seed"}`. Prints `ready`; `stop` on standard input lets every session end
as planned and opens no more, `quit` writes the result. A session is lost when it meets an error, hears
nothing for LOST_S, or when what it hears is not what it must hear.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from devenv.demo.soakserver import CALM_S, PORTS, serve

LOST_S = 30.0
"""TCP on a busy machine may pause for long between two tries; what is dead is dead after this, too."""
LIVES_S = (3.0, 45.0)
"""Shortest and longest life of a session that stays open."""
KINDS = ("echo", "download", "push", "udp")
FIRST_PORT = 20000
PORT_COUNT = 12000
"""Every VM uses the same source ports in the same order, so that many flows have to be port-translated."""
PROBE_EVERY_S = 0.01


class LostError(Exception):
    """A session did not go on as it must."""


class Replies(asyncio.DatagramProtocol):
    """What came back on a UDP session: datagram by datagram, or an ICMP error."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    @override
    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.queue.put_nowait(data)

    @override
    def error_received(self, exc: Exception) -> None:
        self.queue.put_nowait(exc)


class Client:
    """All sessions of one VM. Times are Unix seconds of the guest's one clock."""

    def __init__(self, asked: dict[str, Any], ports: Mapping[str, int] = PORTS) -> None:
        self.ports = ports
        self.vm: str = asked["vm"]
        self.servers: dict[str, str] = asked["servers"]
        self.asked = asked
        self.random = random.Random(asked["seed"])
        self.numbers = itertools.count()
        self.stopping = asyncio.Event()
        self.opened: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.lost: list[dict[str, Any]] = []
        self.replies: dict[str, list[float]] = {}

    async def played(self, kind: str, family: int, port: int, life_s: float) -> None:
        """One session from its first packet to its planned end; what goes wrong is noted."""
        self.opened[kind] += 1
        began = time.time()
        try:
            if kind == "udp":
                await self.udp(family, port, life_s)
            else:
                await self.tcp(kind, family, port, life_s)
            self.ended[kind] += 1
        except (OSError, EOFError, ValueError, TimeoutError, LostError) as error:
            why = f"{type(error).__name__}: {error}"
            told = {"vm": self.vm, "kind": kind, "family": family, "port": port, "why": why}
            self.lost.append(told | {"opened": began, "at": time.time()})

    async def tcp(self, kind: str, family: int, port: int, life_s: float) -> None:
        sock = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        if port:
            sock.bind(("", port))
        where = (self.servers[str(family)], self.ports[kind])
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(sock, where), LOST_S)
            reader, writer = await asyncio.open_connection(sock=sock)
        except BaseException:
            sock.close()
            raise
        try:
            talk = {"download": self.download, "push": self.push}.get(kind, self.echo)
            await talk(reader, writer, time.monotonic() + life_s)
        finally:
            writer.close()

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float) -> None:
        """Asks what the hash of a random text is, as long as it lives; at least once."""
        while True:
            text = self.random.randbytes(self.random.randrange(8, 200)).hex()
            writer.write(f"{text}\n".encode())
            told = await asyncio.wait_for(reader.readline(), LOST_S)
            if told.decode().strip() != hashlib.sha256(text.encode()).hexdigest():
                raise LostError(f"a wrong answer of {len(told)} bytes")
            if time.monotonic() >= until or await self.resting(0.5):
                return

    async def download(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float
    ) -> None:
        """Blocks until it has enough and says so by closing its own direction; then the checksum of all."""
        digest = hashlib.sha256()
        asked_to_end = False
        while length := int(await asyncio.wait_for(reader.readline(), LOST_S)):
            digest.update(await asyncio.wait_for(reader.readexactly(length), LOST_S))
            if not asked_to_end and (time.monotonic() >= until or self.stopping.is_set()):
                writer.write_eof()
                asked_to_end = True
        if (await asyncio.wait_for(reader.readline(), LOST_S)).decode().strip() != digest.hexdigest():
            raise LostError("the checksum of what was downloaded is wrong")

    async def push(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float) -> None:
        """Numbered lines of a server that hears nothing from here until the end."""
        due = 1
        asked_to_end = False
        while (line := await asyncio.wait_for(reader.readline(), LOST_S)) != b"end\n":
            if int(line) != due:
                raise LostError(f"line {line!r} came, {due} was due")
            due += 1
            if not asked_to_end and (time.monotonic() >= until or self.stopping.is_set()):
                writer.write_eof()
                asked_to_end = True

    async def udp(self, family: int, port: int, life_s: float, probe: str = "") -> None:
        """Numbered datagrams that come back with the sender as the server saw it: always the same one."""
        loop = asyncio.get_running_loop()
        transport, replies = await loop.create_datagram_endpoint(
            Replies,
            local_addr=("0.0.0.0" if family == 4 else "::", port),
            remote_addr=(self.servers[str(family)], self.ports["udp"]),
        )
        every_s = PROBE_EVERY_S if probe else 0.1
        noted = self.replies.setdefault(probe, []) if probe else []
        until = time.monotonic() + life_s
        number, heard, seen = 0, time.monotonic(), b""
        due = heard
        try:
            while time.monotonic() < until and not self.stopping.is_set():
                number += 1
                transport.sendto(b"%d" % number)
                due = max(due + every_s, time.monotonic() - every_s)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                while not replies.queue.empty():
                    got = replies.queue.get_nowait()
                    if isinstance(got, Exception):
                        raise LostError(f"an ICMP error: {got}")
                    _, _, peer = got.partition(b" ")
                    if seen and peer != seen:
                        raise LostError(f"the server saw {seen!r} and then {peer!r}")
                    seen, heard = peer, time.monotonic()
                    if probe:
                        noted.append(time.time())
                if time.monotonic() > heard + LOST_S:
                    raise LostError(f"nothing came back for {LOST_S:g} s")
        finally:
            transport.close()

    async def resting(self, pause_s: float) -> bool:
        """Waits; whether it is time to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), pause_s)
        return self.stopping.is_set()

    async def keep(self, slot: int) -> None:
        """One session after another, so that there is always one."""
        # Not all at once: opening a hundred sessions in one instant is no test of a migration.
        if await self.resting(self.random.uniform(0, CALM_S)):
            return
        while not self.stopping.is_set():
            number = next(self.numbers)
            port = FIRST_PORT + number % PORT_COUNT
            kind = KINDS[slot % len(KINDS)]
            family = 4 if (slot // len(KINDS) + number) % 2 else 6
            await self.played(kind, family, port, self.random.uniform(*LIVES_S))
            await self.resting(0.05)

    async def open_more(self, group: asyncio.TaskGroup) -> None:
        """New short connections at their rate; a moment without a turn is made up for."""
        due = time.monotonic()
        for number in itertools.count():
            due += 1 / self.asked["new_per_s"]
            if await self.resting(max(0.001, due - time.monotonic())):
                return
            group.create_task(self.played("short", 4 if number % 2 else 6, 0, 0))

    async def probe(self, number: int) -> None:
        family = 4 if number % 2 == 0 else 6
        name = f"{self.vm}-probe-v{family}-{number // 2}"
        self.opened["probe"] += 1
        try:
            await self.udp(family, 0, 1e9, name)
            self.ended["probe"] += 1
        except (OSError, LostError) as error:
            told = {"vm": self.vm, "kind": "probe", "family": family, "port": 0, "why": str(error)}
            self.lost.append(told | {"at": time.time()})

    async def play(self) -> dict[str, Any]:
        """Until `quit`; returns what was noted."""
        async with asyncio.TaskGroup() as group:
            for slot in range(self.asked["sessions"]):
                group.create_task(self.keep(slot))
            for number in range(self.asked["probes"]):
                group.create_task(self.probe(number))
            group.create_task(self.open_more(group))
            print("ready", flush=True)
            loop = asyncio.get_running_loop()
            while (word := (await loop.run_in_executor(None, sys.stdin.readline)).strip()) not in (
                "quit",
                "",
            ):
                if word == "stop":
                    self.stopping.set()
            self.stopping.set()
        return {"opened": self.opened, "ended": self.ended, "lost": self.lost, "replies": self.replies}


def main() -> int:
    """Plays one end until `quit`."""
    role, *files = sys.argv[1:]
    play = serve if role == "server" else Client(json.loads(Path(files[0]).read_text())).play
    Path(files[-1]).write_text(json.dumps(asyncio.run(play())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
