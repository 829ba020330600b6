from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator

import pytest

from devenv.demo.gapprobe import End


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A server's socket and a client's, connected to it, on loopback."""
    with socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        server.setblocking(False)
        client.setblocking(False)
        yield server, client


def heard(sock: socket.socket) -> None:
    """Until something waits on the socket."""
    with selectors.DefaultSelector() as chosen:
        chosen.register(sock, selectors.EVENT_READ)
        assert chosen.select(10)


def test_a_server_answers_whom_it_has_heard_and_both_note_numbers_and_times(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    there, here = sockets
    server, client = End(close=1), End(close=1)
    client.add(7, here, None)
    client.speak()
    heard(there)
    server.hear(there, answers=True)
    server.speak()
    heard(here)
    client.hear(here, answers=False)
    noted = client.result()
    assert len(noted["sent"][7]) == 1
    assert [n for n, _ in noted["got"][7]] == [0]
    assert server.result()["peers"] == {7: [f"127.0.0.1 {here.getsockname()[1]}"]}


def test_a_second_source_port_of_a_session_is_noted(sockets: tuple[socket.socket, socket.socket]) -> None:
    there, here = sockets
    server = End(close=0)
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        other.connect(there.getsockname())
        for sock in (here, other):
            client = End(close=0)
            client.add(1, sock, None)
            client.speak()
            heard(there)
            server.hear(there, answers=True)
    assert len(server.result()["peers"][1]) == 2


def test_a_refused_datagram_is_counted_and_the_session_goes_on(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    there, here = sockets
    there.close()
    client = End(close=1)
    client.add(0, here, None)
    client.speak()
    heard(here)
    client.hear(here, answers=False)
    assert client.refused == 1
    client.due = [(time.time(), 0)]
    client.speak()
    assert len(client.sent[0]) == 2
