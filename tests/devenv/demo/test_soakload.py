from __future__ import annotations

import asyncio
import socket
from collections import Counter
from typing import Any

import pytest

from devenv.demo.soakload import Client, LostError
from devenv.demo.soakserver import listening

ASKED = {"vm": "vm1", "servers": {"4": "127.0.0.1", "6": "::1"}, "seed": 1}


def free_ports() -> dict[str, int]:
    """A port for each kind that nobody listens at."""
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for one in (a, b, c):
            one.bind(("127.0.0.1", 0))
        first, second, third = (one.getsockname()[1] for one in (a, b, c))
    return {"echo": first, "short": first, "push": second, "download": third, "udp": first}


def played(*kinds: str, ports: dict[str, int] | None = None, life_s: float = 0.5) -> Client:
    """One session of each kind and family on loopback, with a server unless other ports are given."""

    async def play() -> Client:
        chosen = free_ports()
        client = Client(dict(ASKED), ports or chosen)
        async with listening(chosen, Counter()), asyncio.TaskGroup() as group:
            for kind in kinds:
                for family in (4, 6):
                    group.create_task(client.played(kind, family, 0, life_s))
        return client

    return asyncio.run(play())


def test_sessions_of_every_kind_end_as_planned() -> None:
    client = played("echo", "short", "push", "download", "udp")
    assert client.lost == []
    assert client.ended == client.opened == Counter(echo=2, short=2, push=2, download=2, udp=2)


@pytest.mark.parametrize("kind", ["echo", "push", "download", "udp"])
def test_a_session_that_is_refused_is_lost_with_the_reason(kind: str) -> None:
    client = played(kind, ports=free_ports())
    assert [one["kind"] for one in client.lost] == [kind, kind]
    assert all("refused" in one["why"].lower() for one in client.lost)


def test_a_wrong_answer_is_a_lost_session() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"something else\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def play() -> Client:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = Client(dict(ASKED), {"echo": port})
        await client.played("echo", 4, 0, 0.1)
        server.close()
        await server.wait_closed()
        return client

    assert "a wrong answer" in asyncio.run(play()).lost[0]["why"]


def test_a_server_that_sees_another_port_is_a_lost_session() -> None:
    class Wandering(asyncio.DatagramProtocol):
        """Tells another sender each time."""

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.count = 0

        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.count += 1
            self.transport.sendto(b"%s 127.0.0.1 %d" % (data, self.count), addr)

    async def play() -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Wandering, local_addr=("127.0.0.1", 0))
        client = Client(dict(ASKED), {"udp": transport.get_extra_info("sockname")[1]})
        try:
            await client.udp(4, 0, 5.0)
        finally:
            transport.close()

    with pytest.raises(LostError, match="and then"):
        asyncio.run(play())
