"""Faults of streams between real agents: an alarm in words, a counter, and the stream mends itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from ovnmig import pki
from ovnmig.agent.frames import Frame, Kind
from ovnmig.agent.link import Link, PeerRefused
from ovnmig.core.transfer import TransferState
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.pki import Identity, KeyFiles, Role
from tests.netns.nodes import Site, eventually, reached, site
from tests.netns.spaces import inside, run
from tests.netns.test_agent_stream import greet, hello, talk
from tests.netns.test_agent_transfer import A_ZONE, B_ZONE, fill, held, some

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def pair() -> Iterator[Site]:
    with site("a", "b") as made:
        yield made


async def counter(where: Site, node: str, side: str, kind: str) -> float:
    """How many faults of a kind an agent has counted."""
    context = pki.client_context(KeyFiles.of(where.pki_dir, "controller"), Identity(Role.CHASSIS, node))
    async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
        text = (await client.get(f"https://{where[node].address}:8788/metrics")).text
    name = f'ovnmig_agent_stream_faults_total{{kind="{kind}",side="{side}"}} '
    return sum(float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name))


async def problem(agents: NodeAgents, node: str, words: str) -> str:
    """The first alarm of a node that says so."""

    async def ask() -> str:
        found = (await agents.node(node)).problems
        return next((one for one in found if words in one), "")

    return await eventually(ask)


async def quiet(agents: NodeAgents, node: str, words: str) -> None:
    """Wait until no alarm of a node says so any more."""

    async def ask() -> bool:
        return not any(words in one for one in (await agents.node(node)).problems)

    await eventually(ask)


def test_a_cut_link_is_an_alarm_and_when_it_is_back_the_copies_are_too(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 50))

    async def scenario(agents: NodeAgents) -> float:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        run("ip", "-n", pair.wire, "link", "set", "v12", "down")
        began = time.monotonic()
        words = await problem(agents, "a", "transfer 'm1' to chassis 'b'")
        told_s = time.monotonic() - began
        assert (
            "hears nothing from there for" in words or "is connecting" in words
        )  # the latter if we were slow
        fill(pair, "a", A_ZONE, some(50, 60))
        await reached(agents, "a", "m1", TransferState.CONNECTING)
        assert await counter(pair, "a", "source", "cut") >= 1
        run("ip", "-n", pair.wire, "link", "set", "v12", "up")
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await quiet(agents, "a", "transfer 'm1'")
        return told_s

    told_s = pair.drive(scenario)
    assert held(pair, "a", A_ZONE) == held(pair, "b", B_ZONE)
    print(f"the cut was told after {told_s:.1f} s")


def test_a_peer_that_sends_nonsense_or_is_newer_is_an_alarm_and_the_others_go_on(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 50))

    async def garbled(connection: Link) -> None:
        await greet(connection)
        await connection.send(Frame(Kind.ENTRIES, 1, {"zone": 0, "mode": "live"}, b"\xff" * 64))
        with pytest.raises(PeerRefused):
            await connection.receive()

    async def newer(connection: Link) -> None:
        await connection.send(hello(major=2))
        with pytest.raises(PeerRefused):
            await connection.receive()

    async def before(agents: NodeAgents) -> None:
        await agents.start_transfer("a", pair.order(epoch=3))
        await reached(agents, "a", "m1", TransferState.IN_STEP)

    async def after(agents: NodeAgents) -> None:
        assert "batch version 255" in await problem(agents, "b", "ended by a fault (format, 1 so far)")
        assert "stream version 2" in await problem(agents, "b", "ended by a fault (version, 1 so far)")
        assert await counter(pair, "b", "sink", "format") == await counter(pair, "b", "sink", "version") == 1
        fill(pair, "a", A_ZONE, some(50, 60))
        await reached(agents, "a", "m1", TransferState.IN_STEP)

        async def there() -> int:
            return len(held(pair, "b", B_ZONE))

        await eventually(there, lambda found: found == 60)

    pair.drive(before)
    talk(pair, garbled)
    talk(pair, newer)
    pair.drive(after)


@asynccontextmanager
async def another_release(where: Site) -> AsyncIterator[None]:
    """On b's stream port, with b's certificate: who speaks a version of a later release."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        await link.receive()
        await link.send(Frame(Kind.WELCOME, 0, {"major": 2, "minor": 0, "window": 8, "zones": {}}))
        await link.close()

    context = pki.server_context(KeyFiles.of(where.pki_dir, "b"))
    server = await asyncio.start_server(serve, where["b"].address, 8789, ssl=context)
    try:
        yield
    finally:
        server.close()


def test_a_target_of_another_version_is_an_alarm_until_it_speaks_this_one() -> None:
    with site("a", "b", agents=("a",)) as made:
        fill(made, "a", A_ZONE, some(0, 50))

        async def order(agents: NodeAgents) -> None:
            await agents.start_transfer("a", made.order())

        async def alarmed(agents: NodeAgents) -> None:
            words = await problem(agents, "a", "transfer 'm1' to chassis 'b' is connecting")
            assert "stream version 2" in words
            assert await counter(made, "a", "source", "format") >= 1

        async def mended(agents: NodeAgents) -> None:
            await reached(agents, "a", "m1", TransferState.IN_STEP)
            await quiet(agents, "a", "transfer 'm1'")

        async def elsewhere() -> None:
            async with another_release(made):
                made.drive(order)
                await asyncio.to_thread(made.drive, alarmed)

        inside(made["b"].space, lambda: asyncio.run(elsewhere()))
        made["b"].start_agent()
        made.drive(mended)
        assert held(made, "a", A_ZONE) == held(made, "b", B_ZONE)
