"""Standing transfers between two agents in two namespaces of the real kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ovnmig.agent.localdb import LocalView
from ovnmig.agent.store import Copies
from ovnmig.agent.takeover import Takeover
from ovnmig.agent.transfers import PERSIST_S
from ovnmig.conntrack import Applier, Batch, Group, NetlinkSocket, entries, read_zone
from ovnmig.core.transfer import AnnounceOrder, TransferOrder, TransferState, TransferStatus
from ovnmig.drivers.node_agent import NodeAgents
from tests.agent.views import zones_view
from tests.netns.nodes import ROUTER, SNAT, Site, eventually, reached, site
from tests.netns.spaces import inside, namespaces
from tests.netns.test_agent_transfer import A_ZONE, B_ZONE, drop, fill, held, some

pytestmark = pytest.mark.timeout(240)
ARM = AnnounceOrder("own", "blue", 2, "cr-ext", "ln", "0a:58:ac:10:01:64", ("172.16.1.100",))


@pytest.fixture
def pair() -> Iterator[Site]:
    with site("a", "b") as made:
        yield made


def standing(where: Site, epoch: int = 1) -> TransferOrder:
    return replace(where.order(epoch=epoch), keep=True)


def with_values(batch: Batch, **columns: bytes) -> Batch:
    """The same records with other values in the named columns."""
    group = batch.groups[0]
    values = group.values.copy()
    for name, word in columns.items():
        values[:, group.shape.at(name)] = int.from_bytes(word, "little")
    return Batch((Group(group.shape, (values & group.shape.keep) | group.shape.force),))


def seconds(number: int) -> bytes:
    return number.to_bytes(4, "big")


async def holds(where: Site, count: int) -> int:
    async def ask() -> int:
        return len(held(where, "b", B_ZONE))

    return await eventually(ask, lambda found: found == count)


def test_a_copy_with_little_time_left_lives_as_long_as_its_original(pair: Site) -> None:
    young = with_values(some(0, 20), timeout=seconds(4))
    fill(pair, "a", A_ZONE, young)

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", standing(pair))
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        for _ in range(7):  # traffic on the original, none on the copy
            await asyncio.sleep(1)
            with inside(pair["a"].space, NetlinkSocket) as socket:
                Applier(socket).refresh(young, A_ZONE)
            assert len(held(pair, "b", B_ZONE)) == 20
        alive = await reached(agents, "a", "m1", TransferState.IN_STEP)
        await holds(pair, 0)  # the originals time out: their ends are told
        return alive

    status = pair.drive(scenario)
    assert status.put_back == 0
    assert status.synced_s is not None
    assert status.synced_s < 3
    assert held(pair, "a", A_ZONE) == set()


def test_a_standby_that_is_away_for_long_is_reached_again_and_nothing_ended_stays(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 50))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", standing(pair))
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        pair["b"].kill_agent()
        down = await reached(agents, "a", "m1", TransferState.CONNECTING)
        assert down.counts.read == 50
        await asyncio.sleep(PERSIST_S + 1)
        waiting = await agents.transfer("a", "m1")
        assert waiting is not None
        assert waiting.state is TransferState.CONNECTING
        assert "no connection to chassis" in waiting.reason
        fill(pair, "a", A_ZONE, some(50, 60))
        pair["b"].start_agent()
        await holds(pair, 60)
        # This agent of b has the copies in its ledger; the connection breaks while sessions end.
        pair["a"].set_zone(f"{ROUTER}_snat", None)
        await eventually(lambda: agents.transfer("a", "m1"), lambda one: one is not None and one.reason != "")
        drop(pair, "a", A_ZONE, some(0, 30))
        pair["a"].set_zone(f"{ROUTER}_snat", A_ZONE)
        await agents.start_transfer("a", standing(pair))
        await holds(pair, 30)
        return await reached(agents, "a", "m1", TransferState.IN_STEP)

    pair.drive(scenario)
    assert held(pair, "a", A_ZONE) == held(pair, "b", B_ZONE)


def test_after_a_take_over_the_former_owner_ends_nothing_any_more(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 20))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", standing(pair))
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await agents.arm("b", ARM)
        drop(pair, "a", A_ZONE, some(0, 10))
        return await reached(agents, "a", "m1", TransferState.FAILED)

    status = pair.drive(scenario)
    assert "has an order of epoch 2 for UDN 'blue', the stream is of epoch 1" in status.reason
    assert len(held(pair, "b", B_ZONE)) == 20

    async def back_to_standby(agents: NodeAgents) -> None:
        await agents.start_transfer("a", standing(pair, epoch=3))
        await holds(pair, 10)
        await reached(agents, "a", "m1", TransferState.IN_STEP)

    pair.drive(back_to_standby)


def test_a_standing_transfer_hands_over_when_it_is_asked_to(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 20))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", standing(pair))
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        return await agents.finish_transfer("a", "m1")

    assert pair.drive(scenario).state is TransferState.FINAL


def claim(space: str, view: LocalView, copies: Copies) -> None:
    """The gateway of UDN blue is claimed in a namespace."""

    async def body() -> None:
        tasks: list[asyncio.Task[None]] = []

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            tasks.append(asyncio.get_running_loop().create_task(work))

        Takeover("b", lambda: view, copies, spawn).claimed("blue")
        await asyncio.gather(*tasks)

    call: Callable[[], None] = lambda: asyncio.run(body())  # noqa: E731
    inside(space, call)


def test_young_copies_become_established_at_the_claim_and_nothing_else_is_touched() -> None:
    opening = with_values(some(0, 5), state=b"\x01\0\0\0", status=b"\0\0\0\0", timeout=seconds(100))
    stranger = with_values(some(5, 8), state=b"\x01\0\0\0", status=b"\0\0\0\0", timeout=seconds(100))
    view, copies = zones_view(**{f"{ROUTER}_snat": str(B_ZONE)}), Copies()
    zone = replace(SNAT, datapath="")
    with namespaces("b") as (space,), inside(space, NetlinkSocket) as socket:
        Applier(socket).apply(opening, B_ZONE)
        Applier(socket).apply(stranger, B_ZONE)
        copies.of("blue", zone.key).record(opening)
        claim(space, view, copies)  # no standing stream was ever here
        assert _states(socket) == ["SYN_SENT"] * 8
        copies.keep("blue", (zone,))
        claim(space, zones_view(), copies)  # the zone is gone meanwhile
        assert _states(socket) == ["SYN_SENT"] * 8
        claim(space, view, copies)
        assert _states(socket) == ["ESTABLISHED"] * 5 + ["SYN_SENT"] * 3


def _states(socket: NetlinkSocket) -> list[str]:
    return sorted(entry.state for group in read_zone(socket, B_ZONE) for entry in entries(group))
