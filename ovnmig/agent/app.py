"""The control API: orders from a controller, questions about what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from ovnmig.agent import problems
from ovnmig.agent.announce import BadOrder
from ovnmig.agent.parts import Parts
from ovnmig.agent.peer import peer_of
from ovnmig.agent.problems import Problem
from ovnmig.agent.store import StaleEpoch
from ovnmig.agent.transfers import OrderRefused
from ovnmig.core.transfer import (
    AnnounceOrder,
    AnnounceStatus,
    HeldOrder,
    NodeStatus,
    Readiness,
    ReadinessOrder,
    TransferOrder,
    TransferStatus,
)
from ovnmig.pki import Role

T = TypeVar("T")


def controller_only(request: Request) -> None:
    """Orders and answers are for a controller: whoever knows a node's sessions or moves them is trusted."""
    peer = peer_of(request)
    if peer is None or peer.role is not Role.CONTROLLER:
        who = str(peer) if peer else "nobody of ovnmig's"
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "not-a-controller",
            f"the agent serves a controller only; this certificate is for {who}",
        )


def create_app(parts: Parts, version: str) -> FastAPI:
    """The application over the agent's parts."""
    app = FastAPI(
        title="ovnmig agent",
        version=version,
        summary="The node helper of ovnmig: moves conntrack entries between nodes and announces addresses.",
        docs_url=None,
        redoc_url=None,
    )
    problems.install(app)
    guarded = [Depends(controller_only)]

    @app.get("/livez", response_class=PlainTextResponse, tags=["agent"])
    async def livez() -> str:
        """The process runs and its event loop turns."""
        return "ok\n"

    @app.get("/metrics", response_class=PlainTextResponse, tags=["agent"], dependencies=guarded)
    async def metrics() -> Response:
        """Counters in Prometheus' text format."""
        return Response(await asyncio.to_thread(parts.metrics), media_type="text/plain; version=0.0.4")

    @app.get("/v1/node", tags=["node"], dependencies=guarded)
    async def node() -> NodeStatus:
        """The agent about its node and itself."""
        return await parts.node.status(len(parts.transfers), parts.stream_port, parts.alarms())

    @app.post("/v1/readiness", tags=["node"], dependencies=guarded)
    async def readiness(order: ReadinessOrder) -> Readiness:
        """Could traffic of these zones arrive here now? Everything is observed at the moment of asking."""
        return await parts.node.readiness(order)

    @app.get("/v1/orders", tags=["node"], dependencies=guarded)
    async def orders() -> list[HeldOrder]:
        """Every order that is held until it is ended: transfers and announcements, with who gave it, for what
        and how long ago."""
        return [*parts.transfers.held(), *parts.announcements.held()]

    @app.put("/v1/transfers/{transfer_id}", tags=["transfers"], dependencies=guarded)
    async def start_transfer(transfer_id: str, order: TransferOrder) -> TransferStatus:
        """Stream zones to another agent and stay in step. May be repeated; a failed one begins anew."""
        _same_id(transfer_id, order.id)
        return _refusable(lambda: parts.transfers.start(order))

    @app.get("/v1/transfers/{transfer_id}", tags=["transfers"], dependencies=guarded)
    async def transfer(transfer_id: str) -> TransferStatus:
        """Where a transfer stands."""
        return _found(parts.transfers.status(transfer_id), "transfer", transfer_id)

    @app.post("/v1/transfers/{transfer_id}/final", tags=["transfers"], dependencies=guarded)
    async def finish_transfer(transfer_id: str) -> TransferStatus:
        """Send the final delta; answers once the target has acknowledged it and read it back."""
        try:
            return _found(await parts.transfers.finish(transfer_id), "transfer", transfer_id)
        except OrderRefused as error:
            raise Problem(HTTPStatus.CONFLICT, "refused", str(error)) from None

    @app.delete("/v1/transfers/{transfer_id}", status_code=204, tags=["transfers"], dependencies=guarded)
    async def end_transfer(transfer_id: str) -> None:
        """Stop and forget a transfer; entries stay where they are. Fine when unknown."""
        await parts.transfers.end(transfer_id)

    @app.put("/v1/announcements/{announce_id}", tags=["announcements"], dependencies=guarded)
    async def arm(announce_id: str, order: AnnounceOrder) -> AnnounceStatus:
        """Announce the addresses the moment the port is claimed here and its flows are in."""
        _same_id(announce_id, order.id)
        try:
            return await parts.announcements.arm(order)
        except BadOrder as error:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", str(error)) from None
        except StaleEpoch as error:
            raise Problem(HTTPStatus.CONFLICT, "stale-epoch", str(error)) from None

    @app.get("/v1/announcements/{announce_id}", tags=["announcements"], dependencies=guarded)
    async def announcement(announce_id: str) -> AnnounceStatus:
        """Where an announcement stands."""
        return _found(parts.announcements.status(announce_id), "announcement", announce_id)

    @app.delete(
        "/v1/announcements/{announce_id}", status_code=204, tags=["announcements"], dependencies=guarded
    )
    async def disarm(announce_id: str) -> None:
        """Stop watching. Fine when unknown."""
        await parts.announcements.disarm(announce_id)

    return app


def _same_id(path: str, body: str) -> None:
    if path != body:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"the path says {path!r}, the body {body!r}"
        )


def _found(value: T | None, what: str, name: str) -> T:
    if value is None:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown", f"this agent knows no {what} {name!r}")
    return value


def _refusable(call: Callable[[], T]) -> T:
    try:
        return call()
    except StaleEpoch as error:
        raise Problem(HTTPStatus.CONFLICT, "stale-epoch", str(error)) from None
    except OrderRefused as error:
        raise Problem(HTTPStatus.CONFLICT, "refused", str(error)) from None
