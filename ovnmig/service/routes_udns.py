"""``/v1/udns``: UDNs and their gateways."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Response

from ovnmig.core.udn import Problem, Refused
from ovnmig.engine.protocols import ControllerApi
from ovnmig.service.openapi import problems
from ovnmig.service.parameters import IdempotencyKey, NoQueryParameters, UdnPath
from ovnmig.service.wire_migration import MigrationAnswer, migration_answer
from ovnmig.service.wire_udn import (
    GatewayAnswer,
    GatewayMove,
    UdnAnswer,
    UdnChange,
    UdnCreate,
    UdnList,
    gateway_answer,
    udn_answer,
)


def udn_url(name: str) -> str:
    """The path of a UDN."""
    return f"/v1/udns/{quote(name, safe='')}"


def migration_url(migration_id: str) -> str:
    """The path of a migration."""
    return f"/v1/migrations/{quote(migration_id, safe='')}"


def udn_routes(controller: ControllerApi) -> APIRouter:
    """The routes, bound to ``controller``."""
    router = APIRouter(prefix="/v1/udns", tags=["udns"])

    @router.get("", operation_id="listUdns", responses=problems(422, 503))
    async def list_udns(_query: NoQueryParameters) -> UdnList:
        """All UDNs of this deployment, by name."""
        states = await controller.udns()
        return UdnList(udns=[udn_answer(s) for s in sorted(states, key=lambda s: s.spec.name)])

    @router.post(
        "",
        operation_id="createUdn",
        status_code=201,
        responses=problems(
            400, 409, 413, 422, 503, ok={"model": UdnAnswer, "description": "It was exactly so already"}
        ),
    )
    async def create_udn(
        body: UdnCreate, _query: NoQueryParameters, response: Response, _key: IdempotencyKey = None
    ) -> UdnAnswer:
        """Create the gateway of a UDN in one transaction. The name makes it idempotent: an identical request
        changes nothing."""
        state = await controller.create_udn(body.to_core(body.name))
        response.status_code = 201 if state.changed else 200
        response.headers["Location"] = udn_url(state.spec.name)
        return udn_answer(state)

    @router.get("/{name}", operation_id="getUdn", responses=problems(404, 422, 503))
    async def get_udn(name: UdnPath, _query: NoQueryParameters) -> UdnAnswer:
        """One UDN: what is wanted, who owns the gateway, what differs."""
        return udn_answer(await controller.udn(name))

    @router.put("/{name}", operation_id="changeUdn", responses=problems(400, 404, 409, 413, 422, 503))
    async def change_udn(name: UdnPath, body: UdnChange, _query: NoQueryParameters) -> UdnAnswer:
        """Change a UDN to exactly this, in one transaction. What is left out falls back to its default."""
        if body.name is not None and body.name != name:
            words = f"the URL says {name!r}, the body {body.name!r}; renaming is not possible"
            raise Refused((Problem(code="renamed", message=words, field="name"),))
        return udn_answer(await controller.change_udn(name, body.to_core(name)))

    @router.delete(
        "/{name}", operation_id="deleteUdn", status_code=204, responses=problems(404, 409, 422, 503)
    )
    async def delete_udn(name: UdnPath, _query: NoQueryParameters) -> Response:
        """Delete every row of the UDN that is ours, and none of anyone else's."""
        await controller.delete_udn(name)
        return Response(status_code=204)

    @router.get("/{name}/gateway", operation_id="getGateway", responses=problems(404, 422, 503))
    async def get_gateway(name: UdnPath, _query: NoQueryParameters) -> GatewayAnswer:
        """Who owns the gateway now, and who would take over."""
        return gateway_answer(await controller.udn(name))

    @router.put(
        "/{name}/gateway",
        operation_id="moveGateway",
        status_code=202,
        responses=problems(400, 404, 409, 413, 422, 502, 503),
    )
    async def move_gateway(
        name: UdnPath,
        body: GatewayMove,
        _query: NoQueryParameters,
        response: Response,
        idempotency_key: IdempotencyKey = None,
    ) -> MigrationAnswer:
        """Move the gateway by hand, sessions included; answers with the migration that does it."""
        record = await controller.move_gateway(
            name,
            body.target,
            overlap_s=body.overlap_s,
            allow_interruption=body.allow_interruption,
            idempotency_key=idempotency_key,
        )
        response.headers["Location"] = migration_url(record.id)
        return migration_answer(record)

    return router
