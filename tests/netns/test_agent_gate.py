"""The gate on a real ovs-vswitchd: what its flows drop, and that they go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from ovnmig.agent.gate import COOKIE, HOLD_S, Gates
from ovnmig.agent.localdb import LocalDatabase
from ovnmig.core.transfer import Gate
from tests.netns.spaces import run
from tests.netns.switches import LOCALNET, PROVIDER, Switches, switches

MAC = "0a:58:ac:10:01:64"
GATE = Gate(MAC, LOCALNET)


@pytest.fixture
def bridges() -> Iterator[Switches]:
    with switches() as made:
        yield made


def ask(where: Switches, gate: Gate, *calls: str) -> None:
    """Close and open gates as an agent does."""

    async def body() -> None:
        database = LocalDatabase(where.remote)
        await database.start()
        try:
            gates = Gates("a", where.rundir, lambda: database.view)
            for call in calls:
                await getattr(gates, call)(gate)
        finally:
            await database.stop()

    asyncio.run(body())


def flows(where: Switches) -> list[str]:
    """The provider bridge's flows, without counters."""
    target = f"unix:{where.rundir}/{PROVIDER}.mgmt"
    lines = run("ovs-ofctl", "-O", "OpenFlow15", "--no-stats", "dump-flows", target).splitlines()
    return [line.strip() for line in lines if "OFPST" not in line]


def dropped(where: Switches, packet: str) -> bool:
    """Whether the provider bridge drops the packet, as its own tracer tells."""
    target = next(where.rundir.glob("ovs-vswitchd.*.ctl"))
    told = run("ovs-appctl", "-t", str(target), "ofproto/trace", PROVIDER, packet)
    return "Datapath actions: drop" in told


def tcp(source: str, target: str, flags: str, kind: str = "tcp") -> str:
    return f"in_port=up1,dl_src={source},dl_dst={target},{kind},tcp_flags={flags}"


def test_a_closed_gate_drops_what_opens_a_connection_and_nothing_else(bridges: Switches) -> None:
    other = "02:00:00:00:00:01"
    ask(bridges, GATE, "close")
    for kind in ("tcp", "tcp6"):
        assert dropped(bridges, tcp(MAC, other, "syn", kind))
        assert dropped(bridges, tcp(other, MAC, "syn|ece", kind))
        assert not dropped(bridges, tcp(MAC, other, "syn|ack", kind))
        assert not dropped(bridges, tcp(MAC, other, "ack", kind))
        assert not dropped(bridges, tcp(other, "02:00:00:00:00:02", "syn", kind))
    tagged = f"in_port=up1,dl_src={MAC},dl_dst={other},dl_vlan=10,dl_vlan_pcp=0,tcp,tcp_flags="
    assert dropped(bridges, f"{tagged}syn")
    assert not dropped(bridges, f"{tagged}ack")
    assert not dropped(bridges, f"in_port=up1,dl_src={MAC},dl_dst={other},udp")


def test_its_flows_are_marked_and_end_by_themselves_or_when_it_is_opened(bridges: Switches) -> None:
    before = flows(bridges)
    ask(bridges, GATE, "close")
    ours = [line for line in flows(bridges) if line not in before]
    assert len(ours) == 4
    assert all(f"cookie={COOKIE:#x}" in line and f"hard_timeout={HOLD_S}" in line for line in ours)
    ask(bridges, Gate("0a:58:ac:10:01:65", LOCALNET), "open")
    assert len(flows(bridges)) == len(before) + 4, "another gateway's gate is not touched"
    ask(bridges, GATE, "close", "open", "open")
    assert flows(bridges) == before


def test_a_gate_that_cannot_be_closed_is_told_and_stops_nothing(
    bridges: Switches, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        ask(bridges, Gate(MAC, "no such port"), "close")
    assert "the gate of localnet port 'no such port' could not be closed" in caplog.text
