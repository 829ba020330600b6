"""What real agents hold, and what the engine's sweeper leaves of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ovnmig.core.orphans import AGAIN_S, YOUNG_S
from ovnmig.core.transfer import AnnounceOrder, HeldOrder, OrderKind, TransferState
from ovnmig.core.views import ChassisView
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.engine.counters import NoCounters
from ovnmig.engine.journal import Journal
from ovnmig.engine.options import EngineOptions
from ovnmig.engine.perform import Performer
from ovnmig.engine.runner import Outside
from ovnmig.engine.sweeper import Sweeper
from tests.engine.agents import MemoryHistory
from tests.engine.clock import ManualClock
from tests.engine.databases import FakeNorthbound, FakeSouthbound
from tests.netns.nodes import DEPLOYMENT, Site, eventually, reached, site
from tests.netns.test_agent_transfer import A_ZONE, B_ZONE, fill, held, some

pytestmark = pytest.mark.timeout(240)
ARM = AnnounceOrder("m1", "blue", 1, "cr-ext", "ln", "0a:58:ac:10:01:64", ("172.16.1.100",), migration="m1")


@pytest.fixture
def pair() -> Iterator[Site]:
    with site("a", "b") as made:
        yield made


def names(orders: tuple[HeldOrder, ...]) -> set[tuple[OrderKind, str]]:
    return {(one.kind, one.id) for one in orders}


def sweeper(where: Site, agents: NodeAgents, clock: ManualClock) -> Sweeper:
    """With databases in which there is no UDN (any more)."""
    southbound = FakeSouthbound(clock)
    for name, node in where.nodes.items():
        southbound.chassis[name] = ChassisView(name, name, (node.address,), frozenset(), False)
    outside = Outside(
        northbound=FakeNorthbound(clock).seen_by("one"),
        southbound=southbound,
        performer=Performer(southbound, agents),
        journal=Journal(MemoryHistory(), clock),
        clock=clock,
        options=EngineOptions(),
        counters=NoCounters(),
    )
    return Sweeper(outside, agents, DEPLOYMENT)


def test_orders_nobody_wants_end_and_what_they_copied_stays_on_both_sides(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 50))

    async def scenario(agents: NodeAgents) -> list[set[tuple[OrderKind, str]]]:
        theirs = NodeAgents(agents._files, agents._resolve, "another deployment")
        await agents.start_transfer("a", replace(pair.order(), migration="m1"))
        await theirs.start_transfer("a", replace(pair.order(name="x1"), migration="x1", keep=True))
        await agents.arm("b", ARM)
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await reached(agents, "a", "x1", TransferState.IN_STEP, TransferState.CONNECTING)
        clock = ManualClock()
        sweep = sweeper(pair, agents, clock)
        story = [names(await agents.orders("a")) | names(await agents.orders("b"))]
        for _ in range(2):
            await sweep.look()  # too young to be judged, however often
            await clock.pass_time(AGAIN_S)
        story.append(names(await agents.orders("a")) | names(await agents.orders("b")))
        await asyncio.sleep(YOUNG_S)
        for _ in range(2):
            await sweep.look()
            await clock.pass_time(AGAIN_S)
        await eventually(lambda: agents.orders("a"), lambda orders: len(orders) == 1)
        story.append(names(await agents.orders("a")) | names(await agents.orders("b")))
        await theirs.end_transfer("a", "x1")
        await theirs.aclose()
        return story

    everything = {
        (OrderKind.TRANSFER, "m1"),
        (OrderKind.TRANSFER, "x1"),
        (OrderKind.ANNOUNCEMENT, "m1"),
    }
    assert pair.drive(scenario) == [everything, everything, {(OrderKind.TRANSFER, "x1")}]
    assert len(held(pair, "a", A_ZONE)) == len(held(pair, "b", B_ZONE)) == 50
