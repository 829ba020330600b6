"""Two agents as processes in two namespaces of the real kernel, streaming over real TLS."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ovnmig.agent.transfers import PERSIST_S
from ovnmig.conntrack import Applier, Batch, NetlinkSocket, delete_records, entries, read_zone
from ovnmig.core.transfer import Counts, TransferState, TransferStatus, ZoneKind, ZoneRef
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.engine.protocols import AgentRefused
from tests.bench.conntrack import sessions
from tests.netns.nodes import DATAPATH, PORT, ROUTER, Site, eventually, reached, site
from tests.netns.spaces import inside

A_ZONE, B_ZONE = 1100, 1200
FAILED = (TransferState.FAILED,)


pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def pair() -> Iterator[Site]:
    with site("a", "b") as made:
        yield made


def fill(where: Site, node: str, zone: int, batch: Batch) -> None:
    """Entries as if traffic had made them."""
    with inside(where[node].space, NetlinkSocket) as socket:
        assert Applier(socket).apply(batch, zone).created == len(batch)


def drop(where: Site, node: str, zone: int, batch: Batch) -> None:
    """Entries end, as by a timeout."""
    with inside(where[node].space, NetlinkSocket) as socket:
        assert delete_records(socket, batch, zone) == len(batch)


def held(where: Site, node: str, zone: int) -> set[str]:
    with inside(where[node].space, NetlinkSocket) as socket:
        return {str(entry) for group in read_zone(socket, zone) for entry in entries(group)}


def some(first: int, end: int) -> Batch:
    """Sessions by number; any two calls agree about each."""
    return sessions(end).pick(np.arange(end) >= first)


def test_entries_arrive_and_are_handed_over_whatever_number_and_key_the_zone_has(pair: Site) -> None:
    fill(pair, "a", A_ZONE, sessions(3000))

    async def scenario(agents: NodeAgents) -> tuple[TransferStatus, TransferStatus]:
        await agents.start_transfer("a", pair.order())
        in_step = await reached(agents, "a", "m1", TransferState.IN_STEP)
        return in_step, await agents.finish_transfer("a", "m1")

    in_step, final = pair.drive(scenario)
    assert in_step.counts == final.counts == Counts(read=3000, created=3000, kinds={"tcp/4": 3000})
    assert (final.state, final.pending, final.reason) == (TransferState.FINAL, 0, "")
    assert held(pair, "a", A_ZONE) == held(pair, "b", B_ZONE)


def test_births_and_deaths_follow_until_the_hand_over_and_only_births_after_it(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 10))

    async def until(count: int) -> int:
        async def ask() -> int:
            return len(held(pair, "b", B_ZONE))

        return await eventually(ask, lambda found: found == count)

    async def scenario(agents: NodeAgents) -> None:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        fill(pair, "a", A_ZONE, some(10, 15))
        await until(15)
        drop(pair, "a", A_ZONE, some(0, 5))
        await until(10)
        final = await agents.finish_transfer("a", "m1")
        assert (final.counts.read, final.counts.created) == (15, 15)
        drop(pair, "a", A_ZONE, some(5, 8))
        fill(pair, "a", A_ZONE, some(15, 18))
        await until(13)
        again = await agents.finish_transfer("a", "m1")
        assert again.state is TransferState.FINAL
        assert again.counts.read == 18

    pair.drive(scenario)
    assert held(pair, "b", B_ZONE) > held(pair, "a", A_ZONE)


def test_copies_that_vanish_are_put_back_and_entries_of_the_target_are_left_alone(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 100))
    fill(pair, "b", B_ZONE, some(100, 120))
    fill(pair, "b", B_ZONE + 1, some(0, 50))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        drop(pair, "b", B_ZONE, some(0, 60))

        async def ask() -> int:
            return len(held(pair, "b", B_ZONE))

        await eventually(ask, lambda found: found == 120)
        return await agents.finish_transfer("a", "m1")

    status = pair.drive(scenario)
    assert (status.counts.read, status.counts.created, status.counts.lost) == (100, 100, 0)
    assert len(held(pair, "b", B_ZONE + 1)) == 50
    assert "had vanished from b" in pair["a"].log()


def test_a_session_that_holds_the_same_address_and_port_is_refused_counted_and_named(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 20))
    rival = some(0, 3)
    group = rival.groups[0]
    values = group.values.copy()
    values[:, group.shape.at("nat_src_port")] = (
        some(10, 13).groups[0].values[:, group.shape.at("nat_src_port")]
    )
    fill(pair, "b", B_ZONE, Batch((type(group)(group.shape, values),)))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        return await agents.finish_transfer("a", "m1")

    status = pair.drive(scenario)
    counts = status.counts
    assert counts.read == 20 == counts.created + counts.identical + counts.replaced + counts.refused_total
    assert counts.refused_total >= 3
    assert len(status.refused_entries) == counts.refused_total
    assert all(" via " in words for words in status.refused_entries)


def test_a_target_that_is_killed_and_comes_back_gets_everything_again(pair: Site) -> None:
    fill(pair, "a", A_ZONE, sessions(20_000))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", pair.order())

        async def copying() -> bool:
            status = await agents.transfer("a", "m1")
            return status is not None and status.counts.created > 0

        await eventually(copying)
        pair["b"].kill_agent()
        await reached(agents, "a", "m1", TransferState.CONNECTING)
        pair["b"].start_agent()
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        return await agents.finish_transfer("a", "m1")

    counts = pair.drive(scenario).counts
    assert counts.read == 20_000 == counts.created + counts.identical
    assert counts.created > 0
    assert held(pair, "a", A_ZONE) == held(pair, "b", B_ZONE)


def test_a_target_that_stays_away_fails_the_transfer_with_the_reason(pair: Site) -> None:
    fill(pair, "a", A_ZONE, sessions(100))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        pair["b"].kill_agent()
        failed = await eventually(
            lambda: agents.transfer("a", "m1"),
            lambda one: one is not None and one.state in FAILED,
            PERSIST_S + 10,
        )
        assert failed is not None
        with pytest.raises(AgentRefused, match="the transfer failed"):
            await agents.finish_transfer("a", "m1")
        pair["b"].start_agent()
        await eventually(lambda: agents.node("b"))
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        return failed

    failed = pair.drive(scenario)
    assert "chassis 'b'" in failed.reason
    assert failed.counts.read == 100
    assert len(held(pair, "a", A_ZONE)) == 100


def test_a_source_that_restarts_knows_nothing_and_finds_its_copies_identical(pair: Site) -> None:
    fill(pair, "a", A_ZONE, sessions(500))

    async def scenario(agents: NodeAgents) -> Counts:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        pair["a"].kill_agent()
        pair["a"].start_agent()
        await eventually(lambda: agents.node("a"))
        assert await agents.transfer("a", "m1") is None
        await agents.start_transfer("a", pair.order(epoch=2))
        return (await reached(agents, "a", "m1", TransferState.IN_STEP)).counts

    assert pair.drive(scenario) == Counts(read=500, identical=500, kinds={"tcp/4": 500})


def test_there_and_back_again_with_both_directions_open_at_once(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 50))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await agents.finish_transfer("a", "m1")
        await agents.start_transfer("b", pair.order("b", "a", name="m1-back", epoch=2))
        await reached(agents, "b", "m1-back", TransferState.IN_STEP)
        fill(pair, "b", B_ZONE, some(50, 60))
        fill(pair, "a", A_ZONE, some(60, 65))

        async def sizes() -> tuple[int, int]:
            return len(held(pair, "a", A_ZONE)), len(held(pair, "b", B_ZONE))

        await eventually(sizes, lambda found: found == (65, 65))
        drop(pair, "b", B_ZONE, some(0, 10))
        await eventually(sizes, lambda found: found == (55, 55))
        drop(pair, "a", A_ZONE, some(10, 12))
        await eventually(sizes, lambda found: found == (55, 55))
        return await agents.finish_transfer("b", "m1-back")

    back = pair.drive(scenario)
    assert back.counts.identical >= 50
    assert held(pair, "a", A_ZONE) == held(pair, "b", B_ZONE)


def test_ending_a_transfer_leaves_the_entries_where_they_are(pair: Site) -> None:
    fill(pair, "a", A_ZONE, sessions(50))

    async def scenario(agents: NodeAgents) -> None:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await agents.end_transfer("a", "m1")
        await agents.end_transfer("a", "m1")
        assert await agents.transfer("a", "m1") is None
        assert (await agents.node("a")).transfers == 0

    pair.drive(scenario)
    assert len(held(pair, "a", A_ZONE)) == len(held(pair, "b", B_ZONE)) == 50


def test_orders_that_cannot_be_followed_are_refused_with_the_reason(pair: Site) -> None:
    async def scenario(agents: NodeAgents) -> None:
        await agents.start_transfer("a", pair.order(epoch=5))
        assert (await agents.start_transfer("a", pair.order(epoch=5))).id == "m1"
        with pytest.raises(AgentRefused, match="epoch 4 for UDN 'blue' came after one of epoch 5"):
            await agents.start_transfer("a", pair.order(name="m0", epoch=4))
        with pytest.raises(AgentRefused, match="exists with other zones or another peer"):
            await agents.start_transfer("a", pair.order(zones=(PORT,), epoch=6))
        with pytest.raises(AgentRefused, match="stream to itself"):
            await agents.start_transfer("a", pair.order("a", "a", name="self", epoch=6))
        with pytest.raises(AgentRefused, match="no transfer 'nobody'"):
            await agents.finish_transfer("a", "nobody")

    pair.drive(scenario)


def test_a_missing_or_shared_zone_fails_the_transfer_and_an_optional_one_is_skipped(
    pair: Site,
) -> None:
    fill(pair, "a", A_ZONE, sessions(5))
    absent = ZoneRef(ZoneKind.PORT, "vm 1")

    async def scenario(agents: NodeAgents) -> None:
        await agents.start_transfer("a", pair.order(zones=(absent,), name="m0"))
        failed = await reached(agents, "a", "m0", TransferState.FAILED)
        assert failed.reason == "chassis 'a' has no conntrack zone for port:vm 1"
        zones = (*pair.order().zones, PORT)
        await agents.start_transfer("a", pair.order(zones=zones))
        status = await reached(agents, "a", "m1", TransferState.IN_STEP)
        assert status.counts.read == 5
        await agents.end_transfer("a", "m1")
        pair["a"].set_zone("vm 1", 5)
        await agents.start_transfer("a", pair.order(zones=(absent,), name="m2"))

        async def reason() -> str:
            found = await agents.transfer("a", "m2")
            return found.reason if found else ""

        assert await eventually(reason) == "chassis 'b' has no conntrack zone yet for port:vm 1"
        pair["b"].set_zone("vm 1", 6)
        await reached(agents, "a", "m2", TransferState.IN_STEP)
        pair["b"].set_zone("someone else", B_ZONE)
        await agents.start_transfer("a", pair.order(name="m3"))
        failed = await reached(agents, "a", "m3", TransferState.FAILED)
        assert "'someone else'" in failed.reason

    pair.drive(scenario)


def test_a_zone_that_gets_another_number_is_followed(pair: Site) -> None:
    fill(pair, "a", A_ZONE, sessions(30))

    async def scenario(agents: NodeAgents) -> None:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        pair["b"].set_zone(f"{DATAPATH}_snat", 1300)
        pair["b"].set_zone(f"{ROUTER}_snat", 1300)

        async def there() -> int:
            return len(held(pair, "b", 1300))

        await eventually(there, lambda found: found == 30)
        await reached(agents, "a", "m1", TransferState.IN_STEP)

    pair.drive(scenario)


def test_after_the_hand_over_a_broken_connection_is_mended_and_births_in_the_gap_are_sent(pair: Site) -> None:
    fill(pair, "a", A_ZONE, some(0, 20))

    async def scenario(agents: NodeAgents) -> TransferStatus:
        await agents.start_transfer("a", pair.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await agents.finish_transfer("a", "m1")
        pair["b"].kill_agent()
        drop(pair, "b", B_ZONE, some(0, 5))
        drop(pair, "a", A_ZONE, some(3, 10))
        fill(pair, "a", A_ZONE, some(20, 23))
        pair["b"].start_agent()

        async def there() -> int:
            return len(held(pair, "b", B_ZONE))

        await eventually(there, lambda found: found == 18)
        return await agents.finish_transfer("a", "m1")

    status = pair.drive(scenario)
    assert status.state is TransferState.FINAL
    assert (status.counts.read, status.counts.created) == (23, 23)
