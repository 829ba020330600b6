"""Nodes, events, health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from fastapi import APIRouter, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from ovnmig.engine.protocols import ControllerApi, JournalEvent
from ovnmig.service.openapi import problems
from ovnmig.service.parameters import EventQuery, LastEventId, NoQueryParameters
from ovnmig.service.wire_node import (
    EventAnswer,
    LiveAnswer,
    NodeList,
    ReadyAnswer,
    event_answer,
    node_answer,
    ready_answer,
)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def _next(events: AsyncIterator[JournalEvent]) -> JournalEvent | None:
    return await anext(events, None)


async def until(closing: asyncio.Event, events: AsyncIterator[JournalEvent]) -> AsyncGenerator[JournalEvent]:
    """``events`` until they end or ``closing`` is set, so that open streams never hold up the shutdown."""
    # Both tasks are awaited or cancelled right here; a task group cannot span the yields of a generator.
    stop = asyncio.create_task(closing.wait(), name="events-closing")  # noqa: TID251
    try:
        while not closing.is_set():
            following = asyncio.create_task(_next(events))  # noqa: TID251
            try:
                await asyncio.wait({following, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.wait({following})
            event = None if following.cancelled() else following.result()
            if event is None:
                return
            yield event
    finally:
        stop.cancel()
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def system_routes(
    controller: ControllerApi, *, version: str, metrics: Callable[[], bytes], closing: asyncio.Event
) -> APIRouter:
    """The routes, bound to ``controller``. ``metrics`` renders the Prometheus text; ``closing`` ends event
    streams."""
    router = APIRouter()

    @router.get("/v1/nodes", operation_id="listNodes", tags=["nodes"], responses=problems(422, 503))
    async def list_nodes(_query: NoQueryParameters) -> NodeList:
        """All chassis with what their agents say about themselves."""
        states = await controller.nodes()
        return NodeList(nodes=[node_answer(s) for s in sorted(states, key=lambda s: s.chassis)])

    @router.get(
        "/v1/events", operation_id="streamEvents", tags=["events"], response_class=EventSourceResponse,
        responses=problems(422, 503),
    )  # fmt: skip
    async def stream_events(
        query: EventQuery, last_event_id: LastEventId = None
    ) -> AsyncIterator[EventAnswer | ServerSentEvent]:
        """Server-sent events: history after ``after`` (or Last-Event-ID), then what happens, until the client
        leaves."""
        after = last_event_id if query.after is None else query.after
        source = controller.events(after=after, follow=query.follow)
        async with aclosing(until(closing, source)) as events:
            async for event in events:
                if query.migration is None or event.migration == query.migration:
                    yield ServerSentEvent(data=event_answer(event).model_dump(mode="json"), id=str(event.seq))

    @router.get("/livez", operation_id="live", tags=["health"])
    async def live() -> LiveAnswer:
        """The process runs and its event loop answers."""
        return LiveAnswer(status="alive", version=version)

    @router.get(
        "/readyz", operation_id="ready", tags=["health"],
        responses={503: {"model": ReadyAnswer, "description": "Not ready: the problems say why"}},
    )  # fmt: skip
    async def ready(response: Response) -> ReadyAnswer:
        """Whether NB and SB are connected and fresh, and whether this replica is the leader or a standby."""
        health = await controller.health()
        response.status_code = 200 if health.ready else 503
        return ready_answer(health)

    @router.get(
        "/metrics", operation_id="metrics", tags=["health"], response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "Prometheus text format"}},
    )  # fmt: skip
    async def render_metrics() -> Response:
        """Counters and gauges in Prometheus' text format."""
        return Response(metrics(), media_type=METRICS_TYPE)

    return router
