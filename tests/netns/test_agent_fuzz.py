"""A peer with a good certificate that sends nonsense: closed with a reason, nothing applied after the last
good frame, and the agent goes on serving."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ovnmig import pki
from ovnmig.agent import frames
from ovnmig.agent.frames import Decoder, Frame, Kind
from ovnmig.agent.link import IDLE_S, Link
from ovnmig.conntrack import encode, entries
from ovnmig.pki import Identity, KeyFiles, Role
from tests.netns.nodes import Site, site
from tests.netns.spaces import inside
from tests.netns.test_agent_stream import greet, hello, talk
from tests.netns.test_agent_transfer import B_ZONE, held, some

pytestmark = pytest.mark.timeout(240)
PER_FRAME = 3
_FIRST = iter(range(0, 100_000, 100))
"""Sessions of an example are its own, so that what others left does not count."""


@pytest.fixture(scope="module")
def lone() -> Iterator[Site]:
    """Node b with its agent, and a certificate for a that the test itself uses."""
    with site("a", "b", agents=("b",)) as made:
        yield made


def head(length: int, kind: int, seq: int) -> bytes:
    return struct.pack("!IBBHI", length, kind, 0, 0, seq)


def good(first: int, number: int) -> bytes:
    """Frame ``number`` (from 1) of an example."""
    start = first + PER_FRAME * number
    fields = {"zone": 0, "mode": "live"}
    return frames.encode(Frame(Kind.ENTRIES, number, fields, encode(some(start, start + PER_FRAME))))


@dataclass(frozen=True)
class Fault:
    """What comes after some good frames."""

    kind: str
    number: int

    def wire(self, first: int, seq: int) -> bytes:
        """The bytes; ``seq`` is the number that is due."""
        whole = good(first, seq)
        cut = 12 + self.number % (len(whole) - 12)
        return {
            "oversized": head((16 << 20) + 1 + self.number, Kind.ENTRIES, seq),
            "oversized control": head((1 << 20) + 1 + self.number, Kind.HELLO, seq),
            "unknown kind": head(0, 64 + self.number % 100, seq),
            "replayed": good(first, max(1, seq - 1)) if seq > 1 else good(first, 9),
            "reordered": good(first, seq + 1) + whole,
            "shorter than it says": head(cut - 12, Kind.ENTRIES, seq) + whole[12:cut],
            "longer than it says": head(len(whole), Kind.ENTRIES, seq) + whole[12:] + bytes(12),
            "no json": head(8, Kind.SYNC, seq) + struct.pack("!Q", self.number),
            "corrupt records": whole[:-60] + bytes(one ^ 0xFF for one in whole[-60:]),
            "of the other side": frames.encode(Frame(Kind.SYNCED, seq, {"round": self.number})),
            "keys cut short": frames.encode(
                Frame(Kind.DELETE, seq, {"zone": 0, "form": "keys"}, bytes(1 + self.number % 7))
            ),
        }[self.kind] + bytes(self.number % 50)


KINDS = (
    "oversized",
    "oversized control",
    "unknown kind",
    "replayed",
    "reordered",
    "shorter than it says",
    "longer than it says",
    "no json",
    "corrupt records",
    "of the other side",
    "keys cut short",
)
faults = st.builds(Fault, st.sampled_from(KINDS), st.integers(0, 1 << 16))


async def send_all(where: Site, wire: list[bytes]) -> tuple[list[Frame], bool]:
    """Greet, send pieces of bytes, and read whatever comes until the agent closes; False: it did not wait for
    all of them, and its last words may be lost."""
    context = pki.client_context(KeyFiles.of(where.pki_dir, "a"), Identity(Role.CHASSIS, "b"))
    reader, writer = await asyncio.open_connection(where["b"].address, 8789, ssl=context)
    decoder, got, whole = Decoder(), list[Frame](), True
    try:
        for piece in (frames.encode(hello()), *wire):
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(IDLE_S + 20):
            while data := await reader.read(1 << 16):
                decoder.feed(data)
                while (frame := decoder.next()) is not None:
                    got.append(frame)
    except ConnectionError:
        whole = False
    finally:
        writer.transport.abort()
    return [frame for frame in got if frame.kind is not Kind.ALIVE], whole


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(count=st.integers(0, 4), fault=faults, cuts=st.integers(1, 400))
def test_after_nonsense_the_stream_is_closed_with_a_reason_and_only_what_came_before_counts(
    lone: Site, count: int, fault: Fault, cuts: int
) -> None:
    first = next(_FIRST)
    wire = b"".join(good(first, number) for number in range(1, count + 1)) + fault.wire(first, count + 1)
    pieces = [wire[start : start + cuts] for start in range(0, len(wire), cuts)]
    answers, whole = inside(lone.wire, lambda: asyncio.run(send_all(lone, pieces)))
    if whole:
        assert [frame.kind for frame in answers[:-1]] == [Kind.WELCOME, *[Kind.ACK] * count]
        assert [frame.seq for frame in answers[1:-1]] == list(range(1, count + 1))
        last = answers[-1]
        assert last.kind in (Kind.ERROR, Kind.RESYNC)
        assert last.text("reason")
        assert (last.kind is Kind.RESYNC) == (fault.kind in ("replayed", "reordered"))
    start = first + PER_FRAME
    here = names(start, start + PER_FRAME * 12) & held(lone, "b", B_ZONE)
    before = names(start, start + PER_FRAME * count)
    assert here == before if whole else here <= before


def names(first: int, end: int) -> set[str]:
    """Sessions in words."""
    return {str(entry) for group in some(first, end) for entry in entries(group)} if end > first else set()


def test_a_connection_that_ends_inside_a_frame_applies_nothing_of_it_and_the_agent_serves_the_next(
    lone: Site,
) -> None:
    first = next(_FIRST)

    async def cut() -> None:
        context = pki.client_context(KeyFiles.of(lone.pki_dir, "a"), Identity(Role.CHASSIS, "b"))
        _, writer = await asyncio.open_connection(lone["b"].address, 8789, ssl=context)
        writer.write(frames.encode(hello()) + good(first, 1)[:-1])
        await writer.drain()
        writer.close()
        # The agent's WELCOME may come after this side has said goodbye: OpenSSL calls that an error.
        with suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()

    inside(lone.wire, lambda: asyncio.run(cut()))

    async def scenario(connection: Link) -> None:
        assert (await greet(connection)).kind is Kind.WELCOME

    talk(lone, scenario)
    assert not names(first, first + 50) & held(lone, "b", B_ZONE)


def test_a_peer_that_takes_no_answers_is_let_go_and_others_are_served(lone: Site) -> None:
    async def body() -> None:
        context = pki.client_context(KeyFiles.of(lone.pki_dir, "a"), Identity(Role.CHASSIS, "b"))
        reader, writer = await asyncio.open_connection(lone["b"].address, 8789, ssl=context, limit=1 << 12)
        writer.write(frames.encode(hello()))
        await reader.readexactly(1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        number = 0
        try:
            async with asyncio.timeout(IDLE_S * 6):
                while True:
                    number += 1
                    writer.write(frames.encode(Frame(Kind.SYNC, number, {"round": 1, "verify": False})))
                    await writer.drain()
        finally:
            writer.transport.abort()

    async def scenario(connection: Link) -> None:
        assert (await greet(connection)).kind is Kind.WELCOME

    with pytest.raises(ConnectionError):
        inside(lone.wire, lambda: asyncio.run(body()))
    talk(lone, scenario)
