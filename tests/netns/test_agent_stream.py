"""A peer that breaks the rules of the stream, over real TLS against a real agent and the real kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from ovnmig.agent import link
from ovnmig.agent.answers import not_applied, vanished
from ovnmig.agent.frames import Frame, Kind
from ovnmig.agent.link import IDLE_S, Link, LinkLost, PeerRefused
from ovnmig.agent.sink import WINDOW
from ovnmig.conntrack import Applier, Batch, Group, NetlinkSocket, encode, entries, read_zone
from ovnmig.pki import Identity, KeyFiles, Role
from tests.netns.nodes import DATAPATH, ROUTER, Site, site
from tests.netns.spaces import inside
from tests.netns.test_agent_transfer import B_ZONE, held, some

Scenario = Callable[[Link], Awaitable[None]]


@pytest.fixture(scope="module")
def lone() -> Iterator[Site]:
    """Node b with its agent, and a certificate for a that the test itself uses."""
    with site("a", "b", agents=("b",)) as made:
        yield made


def talk(where: Site, scenario: Scenario, holder: str = "a", to: str = "b") -> None:
    """Run a scenario with a connection to b's stream port."""

    async def body() -> None:
        files, peer = KeyFiles.of(where.pki_dir, holder), Identity(Role.CHASSIS, to)
        connection = await link.connect(files, peer, where["b"].address, 8789)
        try:
            await scenario(connection)
        finally:
            await connection.close()

    inside(where.wire, lambda: asyncio.run(body()))


def hello(**changes: Any) -> Frame:
    zone = {"key": f"snat:{ROUTER}", "kind": "snat", "name": ROUTER, "datapath": DATAPATH}
    fields = {
        "major": 1,
        "minor": 7,
        "transfer": "m",
        "udn": "blue",
        "epoch": 3,
        "chassis": "a",
        "zones": [zone],
    }
    return Frame(Kind.HELLO, 0, {**fields, "zones": [zone], "news": "of a later release", **changes})


async def greet(connection: Link) -> Frame:
    await connection.send(hello())
    return await connection.receive()


def batch(seq: int, first: int, end: int, mode: str = "live") -> Frame:
    return Frame(Kind.ENTRIES, seq, {"zone": 0, "mode": mode}, encode(some(first, end)))


async def refusal(connection: Link) -> tuple[str, str]:
    """Code and words of the ERROR that is next, after which the agent closes."""
    with pytest.raises(PeerRefused) as caught:
        await connection.receive()
    with pytest.raises(LinkLost):
        await connection.receive()
    return caught.value.code, str(caught.value)


def test_a_newer_minor_version_and_unknown_members_are_fine(lone: Site) -> None:
    async def scenario(connection: Link) -> None:
        welcome = await greet(connection)
        assert welcome.kind is Kind.WELCOME
        assert welcome.fields["zones"] == {f"snat:{ROUTER}": 0}
        assert welcome.number("window") == WINDOW
        await connection.send(batch(1, 0, 5))
        ack = await connection.receive()
        assert (ack.kind, ack.seq) == (Kind.ACK, 1)
        assert ack.number("created") + ack.number("identical") == 5
        assert not_applied(ack) == {}
        await connection.send(Frame(Kind.SYNC, 2, {"round": 9, "verify": True}))
        synced = await connection.receive()
        assert (synced.kind, synced.number("round"), vanished(synced)) == (Kind.SYNCED, 9, {})

    talk(lone, scenario)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"major": 2}, "version", "stream version 2"),
        ({"chassis": "c"}, "identity", "claims chassis 'c', its certificate is for chassis 'a'"),
        ({"epoch": 2}, "epoch", "epoch 2"),
        ({"epoch": -1}, "format", "no usable number 'epoch'"),
        ({"udn": None}, "format", "no usable text 'udn'"),
        ({"zones": [7]}, "format", "no object"),
        ({"zones": [{"kind": "moon", "name": "x"}]}, "format", "unknown kind 'moon'"),
    ],
)
def test_a_greeting_that_cannot_be_is_refused_with_the_reason(
    lone: Site, changes: dict[str, Any], code: str, words: str
) -> None:
    async def first(connection: Link) -> None:
        await greet(connection)

    async def scenario(connection: Link) -> None:
        await connection.send(hello(**changes))
        found, text = await refusal(connection)
        assert found == code
        assert words in text

    talk(lone, first)
    talk(lone, scenario)


def test_a_controller_may_not_stream(lone: Site) -> None:
    async def scenario(connection: Link) -> None:
        await connection.send(hello(chassis="controller"))
        assert (await refusal(connection))[0] == "identity"

    talk(lone, scenario, holder="controller")


def test_nothing_is_sent_to_an_agent_that_is_another_than_ordered(lone: Site) -> None:
    async def scenario(connection: Link) -> None:
        raise AssertionError("connected")

    with pytest.raises(LinkLost, match="for chassis 'b', not chassis 'a'"):
        talk(lone, scenario, to="a")


def test_a_gap_asks_to_begin_anew_and_applies_nothing_after_it(lone: Site) -> None:
    before = held(lone, "b", B_ZONE)

    async def scenario(connection: Link) -> None:
        await greet(connection)
        await connection.send(batch(1, 100, 110))
        assert (await connection.receive()).kind is Kind.ACK
        await connection.send(batch(3, 110, 120))
        resync = await connection.receive()
        assert resync.kind is Kind.RESYNC
        assert resync.text("reason") == "frame 3 came where 2 was due"

    talk(lone, scenario)
    assert len(held(lone, "b", B_ZONE) - before) == 10


@pytest.mark.parametrize(
    "bad",
    [
        Frame(Kind.ENTRIES, 2, {"zone": 0, "mode": "live"}, encode(some(300, 310))[:-3]),
        Frame(Kind.ENTRIES, 2, {"zone": 0, "mode": "live"}, encode(some(300, 310)) + b"x"),
        Frame(Kind.ENTRIES, 2, {"zone": 0, "mode": "live"}, b"\xff" * 64),
        Frame(Kind.ENTRIES, 2, {"zone": 1, "mode": "live"}, encode(some(300, 310))),
        Frame(Kind.ENTRIES, 2, {"zone": 0, "mode": "sideways"}, encode(some(300, 310))),
        Frame(Kind.DELETE, 2, {"zone": 0, "form": "keys"}, b"1234567"),
        Frame(Kind.DELETE, 2, {"zone": 0, "form": "all"}, b""),
        Frame(Kind.WELCOME, 2, {}),
        Frame(Kind.SYNC, 2, {"verify": True}),
    ],
)
def test_after_a_bad_frame_the_stream_is_closed_and_only_the_good_ones_before_it_count(
    lone: Site, bad: Frame
) -> None:
    async def scenario(connection: Link) -> None:
        await greet(connection)
        await connection.send(batch(1, 200, 210))
        await connection.send(bad)
        assert (await connection.receive()).kind is Kind.ACK
        code, text = await refusal(connection)
        assert code == "format"
        assert text

    talk(lone, scenario)
    now = held(lone, "b", B_ZONE)
    assert set(_named(200, 210)) <= now
    assert not set(_named(300, 310)) & now


def _named(first: int, end: int) -> list[str]:
    return [str(entry) for group in some(first, end) for entry in entries(group)]


def test_deleting_touches_only_what_a_stream_brought(lone: Site) -> None:
    with inside(lone["b"].space, NetlinkSocket) as socket:
        assert Applier(socket).apply(some(400, 405), B_ZONE).created == 5

    async def scenario(connection: Link) -> None:
        await greet(connection)
        await connection.send(batch(1, 405, 410))
        await connection.receive()
        await connection.send(Frame(Kind.DELETE, 2, {"zone": 0, "form": "records"}, encode(some(400, 407))))
        assert (await connection.receive()).number("deleted") == 2
        keys = some(400, 410).keys().astype("<u8").tobytes()
        await connection.send(Frame(Kind.DELETE, 3, {"zone": 0, "form": "keys"}, keys))
        assert (await connection.receive()).number("deleted") == 3

    talk(lone, scenario)
    now = held(lone, "b", B_ZONE)
    assert set(_named(400, 405)) <= now
    assert not set(_named(405, 410)) & now


def test_a_newborn_never_changes_an_entry_that_is_there(lone: Site) -> None:
    group = some(500, 501).groups[0]
    values = group.values.copy()
    values[:, group.shape.at("mark")] = 0x01000000
    changed = Batch((Group(group.shape, values),))

    async def scenario(connection: Link) -> None:
        await greet(connection)
        await connection.send(batch(1, 500, 501))
        await connection.receive()
        fields = {"zone": 0, "mode": "newborn"}
        await connection.send(Frame(Kind.ENTRIES, 2, fields, encode(changed)))
        assert (await connection.receive()).number("identical") == 1

    talk(lone, scenario)
    with inside(lone["b"].space, NetlinkSocket) as socket:
        marks = {entry.mark for one in read_zone(socket, B_ZONE) for entry in entries(one)}
    assert marks == {0}


def test_many_streams_at_once_are_served(lone: Site) -> None:
    async def scenario(connection: Link) -> None:
        files, peer = KeyFiles.of(lone.pki_dir, "a"), Identity(Role.CHASSIS, "b")
        others = [await link.connect(files, peer, lone["b"].address, 8789) for _ in range(10)]
        answers = await asyncio.gather(*(greet(one) for one in [connection, *others]))
        assert {answer.kind for answer in answers} == {Kind.WELCOME}
        for one in others:
            await one.close()

    talk(lone, scenario)


def test_a_source_that_only_says_that_it_is_alive_is_waited_for_longer_than_silence_is(lone: Site) -> None:
    async def scenario(connection: Link) -> None:
        await greet(connection)
        async with asyncio.TaskGroup() as group:
            alive = group.create_task(connection.keep_alive())
            await asyncio.sleep(IDLE_S + 2)
            await connection.send(batch(1, 600, 605))
            assert (await connection.receive()).kind is Kind.ACK
            assert connection.silent_s < IDLE_S / 2
            alive.cancel()

    talk(lone, scenario)


def test_a_source_that_says_nothing_is_let_go(lone: Site) -> None:
    async def scenario(connection: Link) -> None:
        await greet(connection)
        with pytest.raises(LinkLost):
            await connection.receive(timeout_s=2 * IDLE_S)

    talk(lone, scenario)
