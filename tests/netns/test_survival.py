"""Real TCP through SNAT gateways A and then B: alive with the transfer, dead without.

Ports are translated and B would choose others, so no session can live on by mere luck (a gateway that
keeps source ports picks most sessions up in mid-stream without any state).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from ovnmig.conntrack import attrs as a
from ovnmig.conntrack import decode, encode, entries, read_zone
from ovnmig.conntrack.insert import Applier
from ovnmig.conntrack.records import Batch
from tests.netns import kernel as k
from tests.netns.gateways import PORT, ZONE_A, ZONE_B, Stage, stage

TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21
SEND_QUEUE, REPAIR_OFF = 2, -1
HALF = 1 << 31
Session = tuple[socket.socket, socket.socket]


@pytest.fixture(params=[4, 6], ids=["ipv4", "ipv6"])
def world(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The stage in both families."""
    with stage(request.param) as made:
        yield made


def _transfer(world: Stage) -> Batch:
    batch = decode(encode(read_zone(world.read, ZONE_A)))
    outcome = Applier(world.write).apply(batch, ZONE_B)
    assert outcome.created == outcome.total == len(batch) > 0
    return batch


def _request(session: Session, text: bytes) -> None:
    """Request and response, each has to arrive whole."""
    client, server = session
    client.sendall(text)
    assert _receive(server, len(text)) == text
    server.sendall(text[::-1])
    assert _receive(client, len(text)) == text[::-1]


def _push(session: Session) -> None:
    """The server speaks first."""
    client, server = session
    server.sendall(b"news")
    assert _receive(client, 4) == b"news"


def _download(session: Session, size: int = 1 << 20) -> None:
    """Bulk data from the server while the client only acknowledges."""
    client, server = session
    data = bytes(size)
    sender = threading.Thread(target=_send_quietly, args=(server, data))
    sender.start()
    try:
        assert _receive(client, size) == data
    finally:
        sender.join()


def _send_quietly(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
    except OSError:
        return


def _receive(sock: socket.socket, size: int) -> bytes:
    out = b""
    while len(out) < size:
        part = sock.recv(size - len(out))
        if not part:
            raise ConnectionError("the peer closed")
        out += part
    return out


KINDS = {"request": lambda s: _request(s, b"hello"), "push": _push, "download": _download}


def _thrice(kind: str, session: Session) -> None:
    for _ in range(3):
        KINDS[kind](session)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_lives_on_through_the_new_gateway_after_a_transfer(world: Stage, kind: str) -> None:
    session = world.connect(world.listen())
    _request(session, b"before")
    seen = session[1].getpeername()
    _transfer(world)
    world.switch()
    _thrice(kind, session)
    _request(session, b"after")
    assert session[1].getpeername() == seen
    (entry,) = [e for group in read_zone(world.write, ZONE_B) for e in entries(group)]
    assert (str(entry.nat_src), entry.nat_src_port) == seen[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_transfer_the_same_session_dies(world: Stage, kind: str) -> None:
    session = world.connect(world.listen())
    _request(session, b"before")
    for sock in session:
        sock.settimeout(2)
    world.switch()
    with pytest.raises((ConnectionError, TimeoutError)):
        _thrice(kind, session)


def test_a_transfer_into_the_wrong_zone_saves_nothing(world: Stage) -> None:
    session = world.connect(world.listen())
    _request(session, b"before")
    Applier(world.write).apply(read_zone(world.read, ZONE_A), ZONE_B + 1)
    for sock in session:
        sock.settimeout(2)
    world.switch()
    with pytest.raises((ConnectionError, TimeoutError)):
        _request(session, b"after")


def test_a_half_closed_session_goes_on_and_ends_in_order(world: Stage) -> None:
    client, server = session = world.connect(world.listen())
    _request(session, b"before")
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    _transfer(world)
    world.switch()
    server.sendall(b"the rest")
    assert _receive(client, 8) == b"the rest"
    server.close()
    assert client.recv(1) == b""


def _next_sequence(sock: socket.socket) -> int:
    """The next sequence number a socket will send, read in TCP_REPAIR mode."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, SEND_QUEUE)
    value = sock.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ) & 0xFFFFFFFF
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF)
    return value


def _session_in(world: Stage, sender: int, upper: bool) -> Session:
    """A session whose endpoint ``sender`` (0 client, 1 server) counts in the wanted half of the numbers.

    Initial numbers are random, so half of the attempts are right. Those too close to the border
    between the halves are not used.
    """
    listener = world.listen()
    for _ in range(64):
        session = world.connect(listener)
        number = _next_sequence(session[sender])
        if (number >= HALF) == upper and HALF // 8 < number % HALF < HALF * 7 // 8:
            return session
        session[0].close()
        session[1].close()
    raise AssertionError("64 random numbers fell into one half")


def _reset(session: Session, sender: int) -> None:
    """The sender aborts; the other side has to learn of it."""
    session[sender].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    session[sender].close()
    with pytest.raises(ConnectionResetError):
        session[1 - sender].recv(1)


@pytest.mark.parametrize("upper", [False, True], ids=["below 2^31", "above 2^31"])
@pytest.mark.parametrize("sender", [0, 1], ids=["by the vm", "by the server"])
@pytest.mark.parametrize("packets", [0, 3], ids=["at once", "after data"])
def test_a_reset_passes_after_a_transfer(world: Stage, sender: int, upper: bool, packets: int) -> None:
    session = _session_in(world, sender, upper)
    _request(session, b"before")
    _transfer(world)
    world.switch()
    for _ in range(packets):
        _request(session, b"after")
    _reset(session, sender)


@pytest.mark.parametrize("sender", [0, 1], ids=["by the vm", "by the server"])
def test_a_carried_acknowledgement_bound_would_swallow_the_reset(sender: int) -> None:
    with stage(4) as world:
        session = _session_in(world, sender, upper=True)
        _request(session, b"before")
        sport, seen = session[0].getsockname()[1], session[1].getpeername()
        parts = (
            k.tuple_attr(a.TUPLE_ORIG, 6, "10.1.0.5", "172.16.1.50", sport, PORT),
            k.tuple_attr(a.TUPLE_REPLY, 6, "172.16.1.50", "10.1.0.5", PORT, sport),
            k.nat_attr(a.NAT_SRC, seen[0], seen[1]),
            k.tcp_info(3, flags=(0x2B, 0x2B)),
        )
        assert k.create(world.b, ZONE_B, 2, *parts) == 0
        world.switch()
        _request(session, b"after")
        session[1 - sender].settimeout(2)
        with pytest.raises(TimeoutError):
            _reset(session, sender)
