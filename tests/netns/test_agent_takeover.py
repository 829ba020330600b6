"""Sessions that open in the very moment of a hand-over: their copies are usable where the gateway is then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ovnmig.agent.gate import COOKIE
from ovnmig.conntrack import NetlinkSocket, entries, read_zone
from ovnmig.core.transfer import AnnounceOrder, Gate, TransferState
from ovnmig.drivers.node_agent import NodeAgents
from tests.netns.bridges import Bridges, bridges
from tests.netns.model import SYN_SENT, TCP, ZONES, Session
from tests.netns.nodes import Site, eventually, reached, site
from tests.netns.spaces import inside, run
from tests.netns.test_agent_transfer import drop, fill, held, some

pytestmark = pytest.mark.timeout(120)
ARM = AnnounceOrder("m1", "blue", 1, "cr-ext", "ln", "0a:58:ac:10:01:64", ("172.16.1.100",))


@pytest.fixture
def pair() -> Iterator[tuple[Site, dict[str, Bridges]]]:
    with site("a", "b") as where, bridges(where) as switches:
        yield where, switches


def states(where: Site) -> dict[int | None, str]:
    """State of each TCP copy on b by its source port."""
    with inside(where["b"].space, NetlinkSocket) as socket:
        found = [one for group in read_zone(socket, ZONES["b"]) for one in entries(group)]
    return {one.sport: one.state for one in found}


def gate_flows(where: Site) -> int:
    """Flows of a's gate on its provider bridge."""
    bridge = f"unix:{where['a'].rundir}/br-ex.mgmt"
    told = run("ovs-ofctl", "-O", "OpenFlow15", "dump-flows", bridge, f"cookie={COOKIE:#x}/-1")
    return told.count("cookie=")


def test_the_gate_is_closed_from_the_final_delta_until_the_transfer_ends(
    pair: tuple[Site, dict[str, Bridges]],
) -> None:
    where, _ = pair
    order = replace(where.order(), gate=Gate(ARM.mac, ARM.localnet_port))

    async def scenario(agents: NodeAgents) -> tuple[int, int, int]:
        await agents.start_transfer("a", order)
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        before = gate_flows(where)
        await agents.finish_transfer("a", "m1")
        during = gate_flows(where)
        await agents.end_transfer("a", "m1")
        return before, during, gate_flows(where)

    assert where.drive(scenario) == (0, 4, 0)


def test_copies_of_opening_sessions_are_established_from_the_claim_on(
    pair: tuple[Site, dict[str, Bridges]],
) -> None:
    where, switches = pair

    def open_on_a(port: int) -> None:
        assert Session(2, TCP, port, port + 1000).create(where["a"].space, ZONES["a"], SYN_SENT) == 0

    async def scenario(agents: NodeAgents) -> None:
        async def there() -> dict[int | None, str]:
            return states(where)

        switches["a"].claim()
        await agents.arm("b", ARM)
        await agents.start_transfer("a", where.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await agents.finish_transfer("a", "m1")
        open_on_a(2000)
        assert await eventually(there) == {2000: "SYN_SENT"}, "nothing is made of it before the claim"
        switches["a"].release()
        switches["b"].claim()
        await eventually(there, lambda found: found == {2000: "ESTABLISHED"})
        open_on_a(2001)
        await eventually(there, lambda found: found == {2000: "ESTABLISHED", 2001: "ESTABLISHED"})

    where.drive(scenario)


def test_a_restarted_standby_forgets_what_ended_as_soon_as_it_knows_that_it_is_one(
    pair: tuple[Site, dict[str, Bridges]],
) -> None:
    where, switches = pair

    async def scenario(agents: NodeAgents) -> None:
        async def there() -> int:
            return len(held(where, "b", ZONES["b"]))

        switches["a"].claim()
        order = replace(where.order(), keep=True)
        await agents.start_transfer("a", order)
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        where["b"].kill_agent()
        drop(where, "a", ZONES["a"], some(0, 20))
        where["b"].start_agent()
        await eventually(lambda: agents.node("b"))
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        drop(where, "a", ZONES["a"], some(20, 30))
        await eventually(there, lambda count: count == 40)
        assert await there() == 40, "nobody told it yet whose the older ones are"
        await agents.arm("b", ARM)
        await eventually(there, lambda count: count == 20)

    fill(where, "a", ZONES["a"], some(0, 50))
    where.drive(scenario)
