"""The engine's way to the node helpers: HTTPS with certificates that name both ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import TypeAdapter, ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from ovnmig import pki
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
from ovnmig.engine.protocols import AgentRefused, AgentUnreachable
from ovnmig.pki import Identity, KeyFiles, PkiError, Role

T = TypeVar("T")
Resolve = Callable[[str], tuple[str, int]]
"""Chassis name -> host and control port. May raise LookupError with the reason."""

_CONNECT_FOR_S = 2.0
"""A connection that fails is tried again for so long: an agent may be restarting. Nothing was sent yet."""
_TIMEOUT = httpx2.Timeout(5.0, connect=2.0)
_FINAL_TIMEOUT = httpx2.Timeout(12.0, connect=2.0)
_MAX_WORDS = 500


class NodeAgents:
    """Implements ``engine.protocols.Agents``. One connection pool a chassis; close with :meth:`aclose`.

    It speaks for one ``deployment``, whose name goes into every order: agents may serve several.
    """

    def __init__(self, files: KeyFiles, resolve: Resolve, deployment: str = "") -> None:
        self._deployment = deployment
        self._files = files
        self._resolve = resolve
        self._clients: dict[str, httpx2.AsyncClient] = {}

    async def aclose(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def node(self, chassis: str) -> NodeStatus:
        return await self._ask(NodeStatus, chassis, "GET", "node")

    async def readiness(self, chassis: str, order: ReadinessOrder) -> Readiness:
        return await self._ask(Readiness, chassis, "POST", "readiness", order)

    async def start_transfer(self, chassis: str, order: TransferOrder) -> TransferStatus:
        signed = replace(order, deployment=self._deployment)
        return await self._ask(TransferStatus, chassis, "PUT", _path("transfers", order.id), signed)

    async def transfer(self, chassis: str, transfer_id: str) -> TransferStatus | None:
        return await self._find(TransferStatus, chassis, _path("transfers", transfer_id))

    async def finish_transfer(self, chassis: str, transfer_id: str) -> TransferStatus:
        path = _path("transfers", transfer_id) + "/final"
        return await self._ask(TransferStatus, chassis, "POST", path)

    async def end_transfer(self, chassis: str, transfer_id: str) -> None:
        await self._request(chassis, "DELETE", _path("transfers", transfer_id))

    async def arm(self, chassis: str, order: AnnounceOrder) -> AnnounceStatus:
        signed = replace(order, deployment=self._deployment)
        return await self._ask(AnnounceStatus, chassis, "PUT", _path("announcements", order.id), signed)

    async def announcement(self, chassis: str, announce_id: str) -> AnnounceStatus | None:
        return await self._find(AnnounceStatus, chassis, _path("announcements", announce_id))

    async def disarm(self, chassis: str, announce_id: str) -> None:
        await self._request(chassis, "DELETE", _path("announcements", announce_id))

    async def orders(self, chassis: str) -> tuple[HeldOrder, ...]:
        # An agent of an earlier release has no such route and cannot tell.
        return await self._find(tuple[HeldOrder, ...], chassis, "orders") or ()

    async def _find(self, kind: type[T], chassis: str, path: str) -> T | None:
        response = await self._request(chassis, "GET", path, accept=(404,))
        return None if response.status_code == 404 else _read(kind, chassis, response)

    async def _ask(
        self,
        kind: type[T],
        chassis: str,
        method: str,
        path: str,
        order: object = None,
    ) -> T:
        content = None if order is None else TypeAdapter(type(order)).dump_json(order)
        response = await self._request(chassis, method, path, content=content)
        return _read(kind, chassis, response)

    async def _request(
        self,
        chassis: str,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        accept: tuple[int, ...] = (),
    ) -> httpx2.Response:
        try:
            host, port = self._resolve(chassis)
            client = await self._client(chassis)
        except (LookupError, PkiError) as error:
            raise AgentUnreachable(_words(error)) from None
        url = f"https://{f'[{host}]' if ':' in host else host}:{port}/v1/{path}"
        request = client.build_request(
            method,
            url,
            content=content,
            headers={} if content is None else {"content-type": "application/json"},
            timeout=_FINAL_TIMEOUT if path.endswith("/final") else _TIMEOUT,
        )
        # Only a failed connection is tried again: of anything later the agent may have heard.
        attempts = AsyncRetrying(
            retry=retry_if_exception_type((httpx2.ConnectError, httpx2.ConnectTimeout)),
            stop=stop_after_delay(_CONNECT_FOR_S),
            wait=wait_fixed(0.2),
            reraise=True,
        )
        try:
            response: httpx2.Response = await attempts(client.send, request)
        except httpx2.TransportError as error:
            raise AgentUnreachable(
                f"the agent of chassis {chassis!r} at {host}:{port} does not answer: {_words(error)}"
            ) from None
        if response.is_success or response.status_code in accept:
            return response
        raise AgentRefused(f"the agent of chassis {chassis!r} refused: {_detail(response)}")

    async def _client(self, chassis: str) -> httpx2.AsyncClient:
        if chassis not in self._clients:
            identity = Identity(Role.CHASSIS, chassis)
            client = await asyncio.to_thread(_open, self._files, identity)
            self._clients.setdefault(chassis, client)
        return self._clients[chassis]


def _open(files: KeyFiles, identity: Identity) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(verify=pki.client_context(files, identity), trust_env=False)


def _path(kind: str, name: str) -> str:
    return f"{kind}/{quote(name, safe='')}"


def _read(kind: type[T], chassis: str, response: httpx2.Response) -> T:
    try:
        return TypeAdapter(kind).validate_json(response.content)
    except ValidationError as error:
        raise AgentRefused(
            f"the agent of chassis {chassis!r} answered what this release does not understand: {error}"
        ) from None


def _detail(response: httpx2.Response) -> str:
    try:
        document: Any = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("detail"), str):
        return str(document["detail"])
    return f"HTTP {response.status_code} {response.text[:_MAX_WORDS]}"


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
