"""Who is at the other end of a control connection, handed to the application.

uvicorn does not pass a peer's certificate on. Its protocol object knows the transport, and the ``app_state``
it is given becomes each request's ``state``: so the name is read once per connection and put there.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from ovnmig import pki
from ovnmig.pki import Identity, PkiError

_KEY = "ovnmig_peer"


class IdentifyingProtocol(H11Protocol):
    """uvicorn's HTTP protocol that also tells whose certificate the connection showed."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.app_state: dict[str, Any] = {
            **self.app_state,
            _KEY: _identity(tls.getpeercert() if tls else None),
        }


def _identity(certificate: dict[str, Any] | None) -> Identity | None:
    try:
        return pki.parse_identity(certificate)
    except PkiError:
        return None


def peer_of(request: Request) -> Identity | None:
    """Who sent a request; None when the certificate names nobody of ovnmig's."""
    found = getattr(request.state, _KEY, None)
    return found if isinstance(found, Identity) else None
