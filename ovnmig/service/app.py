"""The application: routes over one controller, with problem documents for every error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from fastapi import FastAPI

from ovnmig.engine.protocols import ControllerApi
from ovnmig.service import openapi, problems
from ovnmig.service.guard import KnownHosts, LimitBody, RefuseEncodedSlash, RefuseRepeatedParameters
from ovnmig.service.routes_bfd import bfd_routes
from ovnmig.service.routes_migrations import migration_routes
from ovnmig.service.routes_system import system_routes
from ovnmig.service.routes_udns import udn_routes

DESCRIPTION = """\
Keeps the TCP sessions of VMs on OVN layer-2 UDNs alive across live migration.

Names in URLs are percent-encoded; `/` inside a name is refused.
Unknown fields and query parameters are refused.
Every error is a problem document (RFC 9457, `application/problem+json`) that says what to do.
"""

_TAGS = [
    {"name": "udns", "description": "UDNs and their gateways"},
    {"name": "migrations", "description": "Migrations of VMs and gateways"},
    {"name": "bfd", "description": "How fast OVN notices a dead gateway node"},
    {"name": "nodes", "description": "Chassis and their agents"},
    {"name": "events", "description": "What happened and happens"},
    {"name": "health", "description": "Liveness, readiness, metrics"},
]


def _no_metrics() -> bytes:
    return b""


def create_app(
    controller: ControllerApi,
    *,
    version: str,
    metrics: Callable[[], bytes] = _no_metrics,
    closing: asyncio.Event | None = None,
    allowed_hosts: Collection[str] = (),
) -> FastAPI:
    """The REST application over ``controller``. ``closing``, once set, ends open event streams.
    ``allowed_hosts``: names besides loopback that requests may be for."""
    app = FastAPI(
        title="ovnmig",
        version=version,
        summary="Session-preserving migration of OVN gateways and VMs",
        description=DESCRIPTION,
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    stop = closing or asyncio.Event()
    routers = (
        udn_routes(controller),
        migration_routes(controller),
        bfd_routes(controller),
        system_routes(controller, version=version, metrics=metrics, closing=stop),
    )
    for router in routers:
        app.include_router(router)
    problems.install(app, [route for router in routers for route in router.routes])
    openapi.install(app)
    app.add_middleware(RefuseEncodedSlash)
    app.add_middleware(RefuseRepeatedParameters)
    app.add_middleware(LimitBody)
    app.add_middleware(KnownHosts, allowed=allowed_hosts)
    return app
