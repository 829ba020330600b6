"""Announcements through a real ovs-vswitchd: what is seen of its flows, where its bridges send frames."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import pytest

from ovnmig.agent import packets, switch
from ovnmig.agent.announce import REPEATS_S, Announcements, BadOrder
from ovnmig.agent.localdb import LocalDatabase
from ovnmig.agent.openflow import FlowEvent, FlowUpdate, OpenFlowError
from ovnmig.agent.store import Fence, StaleEpoch
from ovnmig.core.transfer import AnnounceOrder, AnnounceState
from tests.netns.nodes import eventually
from tests.netns.switches import LOCALNET, Switches, switches

MAC = "0a:58:ac:10:01:64"
VIP, VIP6 = "172.16.1.100", "fd00:172:16:1::100"
ORDER = AnnounceOrder("m1", "blue", 7, "cr-ext", LOCALNET, MAC, (VIP, VIP6))
UNSNAT = "table=12,priority=100,ip,metadata=3,reg14=1,nw_dst=172.16.1.100"
UNSNAT6 = "table=12,priority=100,ipv6,metadata=3,reg14=1,ipv6_dst=fd00:172:16:1::100"
BACK = ",actions=ct(table=13,zone=NXM_NX_REG12[0..15],nat)"


@pytest.fixture
def bridges() -> Iterator[Switches]:
    with switches() as made:
        yield made


@asynccontextmanager
async def armed(where: Switches) -> AsyncIterator[Announcements]:
    """The agent's announcing part on the bridges."""
    database = LocalDatabase(where.remote)
    await database.start()
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:

        def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(group.create_task(work))
            return tasks[-1]

        try:
            yield Announcements("a", where.rundir, lambda: database.view, Fence(), spawn)
        finally:
            for task in tasks:
                task.cancel()
            await database.stop()


def frames(where: Switches) -> list[bytes]:
    """The frames of the capture."""
    data, out = where.sent()[24:], []
    while data:
        (length,) = struct.unpack_from("=I", data, 8)
        out.append(data[16 : 16 + length])
        data = data[16 + length :]
    return out


def do(call: Callable[..., None], *words: str) -> Awaitable[None]:
    return asyncio.to_thread(call, *words)


async def state(parts: Announcements, wanted: AnnounceState) -> float | None:
    async def ask() -> Any:
        return parts.status("m1")

    return (await eventually(ask, lambda one: one is not None and one.state is wanted)).announced_at  # type: ignore[no-any-return]


async def count(where: Switches, wanted: int) -> list[bytes]:
    async def ask() -> list[bytes]:
        return await asyncio.to_thread(frames, where)

    return await eventually(ask, lambda found: len(found) >= wanted)


async def test_it_tells_whether_the_gateway_is_here_once_it_has_seen_all_flows(bridges: Switches) -> None:
    async with armed(bridges) as parts:

        async def ask() -> bool | None:
            return parts.resident("blue")

        assert await ask() is None
        await parts.arm(ORDER)
        await eventually(ask, lambda seen: seen is False)
        assert parts.resident("red") is None
        await do(bridges.flow, "add-flow", UNSNAT + BACK)
        await eventually(ask)
        await do(bridges.flow, "del-flows", "table=12")
        await eventually(ask, lambda seen: seen is False)


async def test_it_announces_when_the_flows_come_and_again_when_they_come_back(bridges: Switches) -> None:
    async with armed(bridges) as parts:
        assert (await parts.arm(ORDER)).state is AnnounceState.ARMED
        await do(bridges.flow, "add-flow", "table=29,priority=150,ip,nw_dst=172.16.1.100,actions=drop")
        await do(bridges.flow, "add-flow", "table=12,ip,nw_dst=172.16.1.101" + BACK)
        await do(
            bridges.flow, "add-flow", "table=48,ip,nw_dst=172.16.1.100,actions=ct(commit,nat(src=1.1.1.1))"
        )
        assert parts.frames_sent == 0
        await do(bridges.flow, "add-flow", UNSNAT + BACK)
        await do(bridges.flow, "add-flow", UNSNAT6 + BACK)
        first = await state(parts, AnnounceState.ANNOUNCED)
        assert first is not None
        burst = await count(bridges, 3 * (len(REPEATS_S) - 1))
        expected = packets.announcement(packets.parse_mac(MAC), (ip_address(VIP), ip_address(VIP6)), None)
        assert set(burst) == set(expected)
        assert [row for row in await asyncio.to_thread(bridges.fdb) if row[2] == MAC] == [["2", "0", MAC]]
        await do(bridges.flow, "del-flows", "table=12")
        seen = parts.frames_sent
        await do(bridges.flow, "add-flow", UNSNAT + BACK)
        await count(bridges, seen + 2)
        again = parts.status("m1")
        assert again is not None
        assert again.announced_at is not None
        assert again.announced_at > first


async def test_frames_carry_the_vlan_of_the_localnet_port(bridges: Switches) -> None:
    async with armed(bridges) as parts:
        await do(bridges.flow, "add-flow", UNSNAT + BACK)
        order = AnnounceOrder("m1", "blue", 7, "cr-ext", LOCALNET, MAC, (VIP,), 77)
        await parts.arm(order)
        burst = await count(bridges, 2)
        assert {frame[12:16] for frame in burst} == {b"\x81\x00\x00\x4d"}
        assert [row[1] for row in await asyncio.to_thread(bridges.fdb) if row[2] == MAC] == ["77"]


async def test_it_waits_for_the_patch_port_and_survives_the_switch_daemon() -> None:
    with switches(provider=False) as bridges:
        async with armed(bridges) as parts:
            await parts.arm(ORDER)

            async def reason() -> str:
                status = parts.status("m1")
                return status.reason if status else ""

            await eventually(reason, lambda text: "no patch port for localnet port" in text)
            await do(bridges.add_provider)
            await eventually(reason, lambda text: text == "waiting for the port's flows")
            await do(bridges.restart_vswitchd)
            await do(bridges.flow, "add-flow", UNSNAT + BACK)
            await state(parts, AnnounceState.ANNOUNCED)


async def test_arming_is_repeatable_and_ends_with_disarming(bridges: Switches) -> None:
    async with armed(bridges) as parts:
        await parts.arm(ORDER)
        assert (await parts.arm(ORDER)).id == "m1"
        assert len(parts) == 1
        for bad in (("", "no"), (), ("300.1.1.1",)):
            with pytest.raises(BadOrder):
                await parts.arm(AnnounceOrder("m2", "blue", 7, "cr", LOCALNET, MAC, bad))
        with pytest.raises(BadOrder, match="group address"):
            await parts.arm(AnnounceOrder("m2", "blue", 7, "cr", LOCALNET, "01:00:00:00:00:01", (VIP,)))
        with pytest.raises(BadOrder, match="VLAN 5000"):
            await parts.arm(AnnounceOrder("m2", "blue", 7, "cr", LOCALNET, MAC, (VIP,), 5000))
        with pytest.raises(StaleEpoch):
            await parts.arm(AnnounceOrder("m2", "blue", 6, "cr", LOCALNET, MAC, (VIP,)))
        await parts.disarm("m1")
        await parts.disarm("m1")
        assert parts.status("m1") is None
        await do(bridges.flow, "add-flow", UNSNAT + BACK)
        await asyncio.sleep(0.2)
        assert frames(bridges) == []


@pytest.mark.parametrize(
    "protocols", ["OpenFlow14", "OpenFlow10,OpenFlow14", "OpenFlow13,OpenFlow15", "OpenFlow15"]
)
async def test_every_version_with_monitors_shows_the_same_flows(bridges: Switches, protocols: str) -> None:
    await do(bridges.flow, "add-flow", UNSNAT + BACK)
    await do(bridges.flow, "add-flow", UNSNAT6 + ",actions=drop")
    bridges.vsctl("set", "bridge", "br-int", f"protocols={protocols}")
    seen: list[FlowUpdate] = []

    async def look() -> None:
        async with switch.connect(bridges.rundir / "br-int.mgmt") as connection:
            await connection.monitor([ip_address(VIP), ip_address(VIP6)])
            await connection.run(seen.append)

    async def ask() -> int:
        return len(seen)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(look())
        await eventually(ask, lambda found: found == 2)
        task.cancel()
    assert {(one.event, str(one.destination), one.unsnat) for one in seen} == {
        (FlowEvent.INITIAL, VIP, True),
        (FlowEvent.INITIAL, VIP6, False),
    }


async def test_what_a_bridge_refuses_is_reported(bridges: Switches) -> None:
    async def send(port: int) -> None:
        async with switch.connect(bridges.rundir / "br-ex.mgmt") as connection, asyncio.TaskGroup() as group:
            reader = group.create_task(connection.run())
            await connection.send(port, [packets.rarp(packets.parse_mac(MAC))])
            reader.cancel()

    await send(2)
    with pytest.raises(ExceptionGroup) as caught:
        await send(77777)
    assert caught.group_contains(OpenFlowError, match="the bridge refused a request")
    with pytest.raises(OpenFlowError, match=r"nowhere\.mgmt .*is ovs-vswitchd running"):
        async with switch.connect(bridges.rundir / "nowhere.mgmt"):
            pass
    bridges.vsctl("set", "bridge", "br-ex", "protocols=OpenFlow10")
    with pytest.raises(OpenFlowError, match="speaks no OpenFlow version from"):
        async with switch.connect(bridges.rundir / "br-ex.mgmt"):
            pass
