"""What a target notices of its own entries, in the real kernel: read whole, told by events, or asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import numpy as np
import pytest

from ovnmig.agent.applying import Parsed, Zone
from ovnmig.agent.readback import ReadBack
from ovnmig.agent.store import Copies
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import Applier, Batch, NetlinkSocket, delete_records, ensure_events
from ovnmig.core.transfer import ZoneKind, ZoneRef
from tests.netns.spaces import inside, namespaces
from tests.netns.test_agent_transfer import some

NUMBER = 77
ZONE = Zone(ZoneRef(ZoneKind.SNAT, "r"), NUMBER)
Scenario = Callable[["Target"], Awaitable[None]]


class Target:
    """A namespace's kernel, and a stream's view of it."""

    def __init__(self, worker: Worker, back: ReadBack, copies: Copies, socket: NetlinkSocket) -> None:
        self._socket = socket
        self.worker = worker
        self.back = back
        self.ledger = copies.of("blue", ZONE.ref.key)

    def write(self, batch: Batch) -> Parsed:
        """Entries come over the stream."""
        assert Applier(self._socket).apply(batch, NUMBER).created == len(batch)
        self.ledger.note(batch.keys(), batch.identities())
        return Parsed("live", batch, batch.keys(), batch.identities())

    def lose(self, batch: Batch) -> list[int]:
        """Entries end without their source; returns their keys."""
        assert delete_records(self._socket, batch, NUMBER) == len(batch)
        return sorted(batch.keys().tolist())

    async def look(self, *late: Parsed) -> list[int]:
        """A whole look's missing keys."""
        await self.worker.run(self.back.begin)
        found = await self.worker.run(self.back.finish, [(0, one) for one in late])
        return found[0].tolist() if found else []

    async def ended(self) -> list[int]:
        """Keys of what events tell to have ended."""
        found = await self.worker.run(self.back.ended)
        return sorted(found[0].tolist()) if 0 in found else []


@pytest.fixture
def run() -> Iterator[Callable[[Scenario], None]]:
    """Plays a scenario in a namespace of its own."""
    with namespaces("b") as (space,):

        async def body(scenario: Scenario) -> None:
            ensure_events()
            with NetlinkSocket() as socket:
                await play(scenario, socket)

        async def play(scenario: Scenario, socket: NetlinkSocket) -> None:
            copies = Copies()
            async with Worker("reader") as worker:
                back = ReadBack("blue", copies, worker, [ZONE])
                await worker.run(back.open)
                try:
                    await scenario(Target(worker, back, copies, socket))
                finally:
                    await worker.run(back.close)

        yield lambda scenario: inside(space, lambda: asyncio.run(body(scenario)))


def test_a_look_finds_what_is_missing_once(run: Callable[[Scenario], None]) -> None:
    async def scenario(target: Target) -> None:
        target.write(some(0, 500))
        assert await target.look() == []
        gone = target.lose(some(10, 20))
        assert await target.look() == gone
        assert await target.look() == []

    run(scenario)


def test_entries_written_while_the_zone_is_read_are_asked_for(run: Callable[[Scenario], None]) -> None:
    async def scenario(target: Target) -> None:
        target.write(some(0, 100))
        await target.worker.run(target.back.begin)
        late = target.write(some(100, 900))
        gone = target.lose(some(200, 210))
        found = await target.worker.run(target.back.finish, [(0, late)])
        assert found[0].tolist() == gone

    run(scenario)


def test_an_end_that_nobody_ordered_is_noticed_and_one_that_was_ordered_is_not(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(target: Target) -> None:
        target.write(some(0, 100))
        assert await target.ended() == []
        ordered = some(0, 10)
        target.ledger.forget(ordered.keys())
        target.lose(ordered)
        gone = target.lose(some(50, 60))
        assert await target.ended() == gone
        assert await target.ended() == []
        assert not target.ledger.holds(some(50, 60).keys()).any()
        assert target.ledger.holds(some(60, 100).keys()).all()

    run(scenario)


def test_an_entry_that_ended_and_is_there_again_is_not_missing(run: Callable[[Scenario], None]) -> None:
    async def scenario(target: Target) -> None:
        target.write(some(0, 10))
        target.lose(some(0, 10))
        target.write(some(0, 10))
        assert await target.ended() == []

    run(scenario)


def test_when_very_many_end_at_once_the_zone_is_read(run: Callable[[Scenario], None]) -> None:
    async def scenario(target: Target) -> None:
        target.write(some(0, 6000))
        gone = target.lose(some(0, 5000))
        assert await target.ended() == gone
        assert len(target.ledger) == 1000
        assert np.array_equal(target.ledger.keys, np.sort(some(5000, 6000).keys()))

    run(scenario)
