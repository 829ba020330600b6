"""Two agents as processes in two namespaces of the real kernel, streaming over real TLS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ovnmig.conntrack import Applier, NetlinkSocket, entries, read_zone
from ovnmig.core.transfer import TransferState
from ovnmig.drivers.node_agent import NodeAgents
from tests.bench.conntrack import sessions
from tests.netns.nodes import Site, reached, site
from tests.netns.spaces import inside

A_ZONE, B_ZONE = 1100, 1200


@pytest.fixture
def pair() -> Iterator[Site]:
    with site("a", "b") as made:
        yield made


def fill(where: Site, node: str, zone: int, count: int, first: int = 0) -> None:
    with inside(where[node].space, NetlinkSocket) as socket:
        outcome = Applier(socket).apply(sessions(count), zone)
    assert outcome.created == count


def held(where: Site, node: str, zone: int) -> set[str]:
    with inside(where[node].space, NetlinkSocket) as socket:
        return {str(entry) for group in read_zone(socket, zone) for entry in entries(group)}


def test_entries_arrive_and_stay_in_step_and_are_handed_over(pair: Site) -> None:
    fill(pair, "a", A_ZONE, 3000)

    async def scenario(agents: NodeAgents) -> None:
        await agents.start_transfer("a", pair.order())
        status = await reached(agents, "a", "m1", TransferState.IN_STEP)
        assert (status.counts.read, status.counts.created) == (3000, 3000)
        status = await agents.finish_transfer("a", "m1")
        assert status.state is TransferState.FINAL

    pair.drive(scenario)
    assert held(pair, "a", A_ZONE) == held(pair, "b", B_ZONE)
