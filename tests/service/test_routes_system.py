from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from ovnmig.core.migration import MigrationRequest, Phase
from ovnmig.engine.protocols import Health, JournalEvent
from ovnmig.service.app import create_app
from ovnmig.service.routes_system import until
from tests.service.fake import FakeController, node
from tests.service.lib import create, problem_of


async def events_of(client: httpx2.AsyncClient, **params: str | int) -> list[dict[str, object]]:
    answer = await client.get("/v1/events", params={"follow": "false", **params})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [httpx2.Response(200, content=text).json() for text in found]


@pytest.fixture
async def history(client: httpx2.AsyncClient, controller: FakeController) -> FakeController:
    for name in ("blue", "red"):
        await create(client, name=name)
        record = await controller.migrate(MigrationRequest(name, "gw-2"))
        await controller.enter(record.id, Phase.PREPARING)
    return controller


async def test_events_without_following_are_the_history_after_that_number(
    client: httpx2.AsyncClient, history: FakeController
) -> None:
    everything = await events_of(client, after=0)
    assert [e["seq"] for e in everything] == [1, 2, 3, 4]
    assert [e["seq"] for e in await events_of(client, after=2)] == [3, 4]
    assert await events_of(client) == []


async def test_last_event_id_goes_on_where_the_client_left_off(
    client: httpx2.AsyncClient, history: FakeController
) -> None:
    answer = await client.get("/v1/events?follow=false", headers={"Last-Event-ID": "3"})
    assert "id: 4" in answer.text
    assert "id: 3" not in answer.text


async def test_events_can_be_of_one_migration(client: httpx2.AsyncClient, history: FakeController) -> None:
    assert {e["migration"] for e in await events_of(client, after=0, migration="m2")} == {"m2"}


async def test_following_streams_end_when_the_service_closes() -> None:
    controller, closing = FakeController(), asyncio.Event()
    app = create_app(controller, version="0", closing=closing)
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")
    async with client, asyncio.TaskGroup() as group:
        stream = group.create_task(client.get("/v1/events?after=0"))
        await asyncio.sleep(0)
        closing.set()
        assert (await stream).status_code == 200


async def test_until_gives_every_event_before_it_is_closed() -> None:
    closing = asyncio.Event()
    left = []

    async def source() -> AsyncIterator[JournalEvent]:
        try:
            for seq in range(3):
                yield JournalEvent(seq, 0.0, "k", "", "", "")
            await asyncio.Event().wait()
        finally:
            left.append("source")

    seen = []
    async for event in until(closing, source()):
        seen.append(event.seq)
        if event.seq == 2:
            closing.set()
    assert seen == [0, 1, 2]
    assert left == ["source"], "the source is closed with it"


async def test_live_says_the_version(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/livez")).json() == {"status": "alive", "version": "1.2.3"}


async def test_ready_is_503_with_words_while_a_database_is_stale(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    assert (await client.get("/readyz")).json() == {"ready": True, "role": "leader", "problems": []}
    controller.health_now = Health(False, "standby", ("NB: no answer for 12 s",))
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "role": "standby", "problems": ["NB: no answer for 12 s"]}


async def test_nodes_say_what_their_agents_say_or_why_they_do_not(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    controller.nodes_now = (node("gw-2", agent=False), node("gw-1", problems=("no uplink",)))
    first, second = (await client.get("/v1/nodes")).json()["nodes"]
    assert (first["chassis"], first["agent_up"], first["agent_problems"]) == ("gw-1", True, ["no uplink"])
    assert (second["agent_up"], second["agent_entries"]) == (False, None)
    assert "gw-2" in second["agent_problem"]


async def test_metrics_are_text(controller: FakeController) -> None:
    app = create_app(controller, version="0", metrics=lambda: b"up 1\n")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        answer = await client.get("/metrics")
    assert answer.text == "up 1\n"
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_a_wrong_event_number_is_a_problem(client: httpx2.AsyncClient) -> None:
    assert problem_of(await client.get("/v1/events?after=-1"))["problems"][0]["field"] == "query.after"
    answer = await client.get("/v1/events", headers={"Last-Event-ID": "x"})
    assert problem_of(answer)["status"] == 422
