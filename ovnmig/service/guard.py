"""What stands in front of the routes: loopback and known hosts only, no '/' in names, no parameter
twice, no huge bodies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ovnmig.service.problems import FIELD_MAX, PROBLEMS_MAX, ProblemItem, answer, document

BODY_MAX = 1 << 20
"""Bytes of a request's body. A UDN with every field in use takes a few kilobytes."""

_ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)


class ListenRefused(Exception):
    """The service may not listen there; the text says what to do."""


def check_listen_address(address: str) -> None:
    """Raise ListenRefused unless ``address`` is a loopback address: there is no TLS and no token yet."""
    if address == "localhost":
        return
    try:
        loopback = ip_address(address.strip("[]")).is_loopback
    except ValueError:
        raise ListenRefused(
            f"{address!r} is not an IP address; set OVNMIG_LISTEN_ADDRESS to 127.0.0.1 or ::1"
        ) from None
    if not loopback:
        raise ListenRefused(
            f"refusing to listen on {address}: the REST service has neither TLS nor tokens yet, so it only"
            " listens on loopback; set OVNMIG_LISTEN_ADDRESS=127.0.0.1 and reach it from elsewhere through an"
            " SSH tunnel (ssh -L 8787:127.0.0.1:8787)"
        )


def host_name(header: str) -> str:
    """The host of a ``Host`` header, without port and brackets, in lower case."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if ":" in text else text


def is_own_host(header: str, allowed: Collection[str]) -> bool:
    """Whether a request for that host is meant for this service: loopback, or one of ``allowed``."""
    name = host_name(header)
    if name == "localhost" or name in {other.lower() for other in allowed}:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class KnownHosts:
    """ASGI middleware: a request for another host is refused.

    A page in an operator's browser can send requests to a name of its own that resolves to 127.0.0.1 (DNS
    rebinding); its name in the ``Host`` header gives it away.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = Headers(scope=scope).get("host", "")
            if not is_own_host(host, self._allowed):
                words = (
                    f"this service does not answer for the host {host!r}: ask for 127.0.0.1 or localhost, or"
                    " name the host in OVNMIG_ALLOWED_HOSTS"
                )
                refusal = document(421, "misdirected", "Misdirected request", words)
                await answer(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class RefuseEncodedSlash:
    """ASGI middleware: ``%2F`` would be decoded before routing, and ``a%2Fgateway`` would reach the gateway
    of ``a``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _ENCODED_SLASH.search(scope.get("raw_path") or b""):
            response = answer(
                document(
                    422,
                    "invalid-request",
                    "Invalid request",
                    "a name in the URL contains '/' (%2F); names of UDNs cannot contain it",
                )
            )
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


class RefuseRepeatedParameters:
    """ASGI middleware: of ``?dry_run=true&dry_run=false`` only the last would be seen, and a migration would
    start for real."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            counts = Counter(name[:FIELD_MAX] for name, _ in pairs)
            twice = [name for name, count in counts.items() if count > 1][:PROBLEMS_MAX]
            if twice:
                items = [
                    ProblemItem(code="repeated", message="give it once", field=f"query.{name}")
                    for name in twice
                ]
                detail = "; ".join(f"{i.field}: {i.message}" for i in items)
                refusal = document(422, "invalid-request", "Invalid request", detail, items)
                await answer(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class LimitBody:
    """ASGI middleware: a body above ``BODY_MAX`` bytes is refused before it is gathered and parsed, which
    would hold up every migration."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            more = message.get("more_body", False)
            size += len(message.get("body", b""))
            chunks.append(message.get("body", b""))
            if size > BODY_MAX:
                chunks.clear()  # Read on to the end all the same: a client that still sends reads no answer.
        if size > BODY_MAX:
            words = f"the body has more than {BODY_MAX} bytes; no request needs that many"
            await answer(document(413, "too-large", "Request too large", words))(scope, receive, send)
            return
        whole: Message = {"type": "http.request", "body": b"".join(chunks), "more_body": False}

        async def replay() -> Message:
            nonlocal whole
            if whole["type"] == "http.request":
                first, whole = whole, {"type": "handed-on"}
                return first
            return await receive()

        await self._app(scope, replay, send)
