"""The driver against the agent's own application on loopback; whole agents answer it in tests/netns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn

from ovnmig import pki
from ovnmig.agent.announce import Announcements
from ovnmig.agent.app import create_app
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.parts import Parts
from ovnmig.agent.peer import IdentifyingProtocol
from ovnmig.agent.store import Copies, Fence
from ovnmig.agent.transfers import Transfers
from ovnmig.core.transfer import (
    AnnounceOrder,
    AnnounceState,
    OrderKind,
    Peer,
    TransferOrder,
    TransferState,
    ZoneKind,
    ZoneRef,
)
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.engine.protocols import AgentRefused, Agents, AgentUnreachable
from ovnmig.pki import Identity, KeyFiles, Role

CHASSIS = 'node "ü" 1'
ZONES = (ZoneRef(ZoneKind.SNAT, "r", "uuid"), ZoneRef(ZoneKind.PORT, "vm 1", required=False))
ORDER = TransferOrder("m 1 %41", "blue", 3, Peer("b", "127.0.0.1", 1), ZONES)
ANNOUNCE = AnnounceOrder(
    "m 1 %41", "blue", 3, "cr", "ln", "0a:58:ac:10:01:64", ("172.16.1.100", "fd00::1"), 7
)


@pytest.fixture
def pki_dir(tmp_path: Path) -> Path:
    pki.init_ca(tmp_path)
    pki.issue(tmp_path, Identity(Role.CHASSIS, CHASSIS))
    pki.issue(tmp_path, Identity(Role.CONTROLLER, "controller"))
    pki.issue(tmp_path, Identity(Role.CHASSIS, "b"))
    return tmp_path


@asynccontextmanager
async def served(pki_dir: Path, without: str = "") -> AsyncIterator[int]:
    """The application with parts that need no node, and without one route if told; gives the port."""
    files = KeyFiles.of(pki_dir, CHASSIS)
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:

        def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(group.create_task(work))
            return tasks[-1]

        parts = Parts(
            cast(Any, None),
            Transfers(CHASSIS, files, LocalView, Copies(), Fence(), spawn),
            Announcements(CHASSIS, pki_dir, LocalView, Fence(), spawn),
            cast(Any, None),
            8789,
        )
        app = create_app(parts, "1")
        app.router.routes[:] = [one for one in app.routes if getattr(one, "path", "") != without]
        config = uvicorn.Config(
            app,
            port=0,
            http=IdentifyingProtocol,
            ssl_context_factory=lambda *_: pki.server_context(files),
            lifespan="off",
            log_config=None,
        )
        server = uvicorn.Server(config)
        tasks.append(group.create_task(server.serve()))
        while not server.started:  # noqa: ASYNC110  uvicorn offers no event for it
            await asyncio.sleep(0.01)
        try:
            yield int(server.servers[0].sockets[0].getsockname()[1])
        finally:
            server.should_exit = True
            for task in tasks[:-1]:
                task.cancel()


@asynccontextmanager
async def driver(
    pki_dir: Path, port: int, holder: str = "controller", host: str = "127.0.0.1"
) -> AsyncIterator[Agents]:
    agents = NodeAgents(KeyFiles.of(pki_dir, holder), lambda _: (host, port), "house")
    try:
        yield agents
    finally:
        await agents.aclose()


async def test_orders_arrive_whole_and_answers_come_back_whole(pki_dir: Path) -> None:
    async with served(pki_dir) as port, driver(pki_dir, port) as agents:
        status = await agents.start_transfer(CHASSIS, ORDER)
        assert (status.id, status.state) == (ORDER.id, TransferState.CONNECTING)
        assert (await agents.start_transfer(CHASSIS, replace(ORDER, epoch=4))).id == ORDER.id
        failed = await agents.transfer(CHASSIS, ORDER.id)
        while failed is not None and failed.state is not TransferState.FAILED:
            await asyncio.sleep(0.01)
            failed = await agents.transfer(CHASSIS, ORDER.id)
        assert failed is not None
        assert await agents.transfer(CHASSIS, "another") is None
        await agents.end_transfer(CHASSIS, ORDER.id)
        await agents.end_transfer(CHASSIS, ORDER.id)
        assert await agents.transfer(CHASSIS, ORDER.id) is None
        armed = await agents.arm(CHASSIS, ANNOUNCE)
        assert (armed.state, armed.announced_at) == (AnnounceState.ARMED, None)
        assert await agents.announcement(CHASSIS, ANNOUNCE.id) is not None
        await agents.disarm(CHASSIS, ANNOUNCE.id)
        assert await agents.announcement(CHASSIS, ANNOUNCE.id) is None


async def test_what_an_agent_holds_is_told_with_who_ordered_it_and_for_what(pki_dir: Path) -> None:
    keep = replace(ORDER, id="keep", keep=True)
    async with served(pki_dir) as port, driver(pki_dir, port) as agents:
        assert await agents.orders(CHASSIS) == ()
        await agents.start_transfer(CHASSIS, replace(ORDER, migration="m 1"))
        await agents.start_transfer(CHASSIS, keep)
        await agents.arm(CHASSIS, replace(ANNOUNCE, migration="m 1"))
        held = await agents.orders(CHASSIS)
        assert {(one.kind, one.id, one.migration, one.target, one.keep) for one in held} == {
            (OrderKind.TRANSFER, ORDER.id, "m 1", "b", False),
            (OrderKind.TRANSFER, "keep", "", "b", True),
            (OrderKind.ANNOUNCEMENT, ANNOUNCE.id, "m 1", "", False),
        }
        assert {(one.udn, one.epoch, one.deployment) for one in held} == {("blue", 3, "house")}
        assert all(0 <= one.age_s < 60 for one in held)
        await agents.end_transfer(CHASSIS, ORDER.id)
        await agents.end_transfer(CHASSIS, "keep")
        await agents.disarm(CHASSIS, ANNOUNCE.id)
        assert await agents.orders(CHASSIS) == ()


async def test_an_agent_of_a_release_that_cannot_tell_what_it_holds_holds_nothing_we_know(
    pki_dir: Path,
) -> None:
    async with served(pki_dir, without="/v1/orders") as port, driver(pki_dir, port) as agents:
        await agents.start_transfer(CHASSIS, ORDER)
        assert await agents.orders(CHASSIS) == ()


async def test_a_refusal_says_why(pki_dir: Path) -> None:
    async with served(pki_dir) as port, driver(pki_dir, port) as agents:
        with pytest.raises(AgentRefused, match="knows no transfer 'x'"):
            await agents.finish_transfer(CHASSIS, "x")
        with pytest.raises(AgentRefused, match="group address"):
            await agents.arm(CHASSIS, replace(ANNOUNCE, mac="01:00:00:00:00:01"))
        await agents.start_transfer(CHASSIS, ORDER)
        with pytest.raises(AgentRefused, match="other zones or another peer"):
            await agents.start_transfer(CHASSIS, replace(ORDER, zones=ZONES[:1]))
        with pytest.raises(AgentRefused, match="epoch 2 for UDN 'blue'"):
            await agents.start_transfer(CHASSIS, replace(ORDER, id="m2", epoch=2))
        with pytest.raises(AgentRefused, match=r"HTTP 500"):
            await agents.node(CHASSIS)


async def test_a_chassis_may_not_give_orders(pki_dir: Path) -> None:
    async with served(pki_dir) as port, driver(pki_dir, port, holder="b") as agents:
        with pytest.raises(AgentRefused, match="a controller only; this certificate is for chassis 'b'"):
            await agents.start_transfer(CHASSIS, ORDER)


async def test_who_cannot_be_reached_or_is_someone_else_is_unreachable(pki_dir: Path) -> None:
    async with served(pki_dir) as port:
        async with driver(pki_dir, port) as agents:
            with pytest.raises(AgentUnreachable, match="not chassis 'b'"):
                await agents.start_transfer("b", ORDER)
        async with driver(pki_dir, port, holder="nobody") as agents:
            with pytest.raises(AgentUnreachable, match=r"nobody\.crt is missing"):
                await agents.node(CHASSIS)
    async with driver(pki_dir, port, host="::1") as agents:
        with pytest.raises(AgentUnreachable, match="does not answer"):
            await agents.node(CHASSIS)


async def test_a_chassis_nobody_can_place_is_unreachable_in_the_resolvers_words(pki_dir: Path) -> None:
    def resolve(chassis: str) -> tuple[str, int]:
        raise LookupError(f"chassis {chassis!r} is not in the Southbound database")

    agents = NodeAgents(KeyFiles.of(pki_dir, "controller"), resolve)
    with pytest.raises(AgentUnreachable, match="'gone' is not in the Southbound database"):
        await agents.node("gone")
    await agents.aclose()
