"""What stands in front of the routes: the loopback rule and the refusal of '/' inside names."""

from __future__ import annotations

import re
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from ovnmig.service.problems import answer, document

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
