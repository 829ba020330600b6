"""``/v1/migrations``: start, watch, switch and cancel."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from ovnmig.engine.protocols import ControllerApi, NotFound
from ovnmig.service.openapi import problems
from ovnmig.service.parameters import (
    IdempotencyKey,
    MigrationFilterQuery,
    MigrationOptionsQuery,
    MigrationPath,
    NoQueryParameters,
)
from ovnmig.service.routes_udns import migration_url
from ovnmig.service.wire_migration import (
    DryRunAnswer,
    MigrationAnswer,
    MigrationCreate,
    MigrationList,
    dry_run_answer,
    migration_answer,
)


def migration_routes(controller: ControllerApi) -> APIRouter:
    """The routes, bound to ``controller``."""
    router = APIRouter(prefix="/v1/migrations", tags=["migrations"])

    @router.post(
        "",
        operation_id="startMigration",
        status_code=202,
        response_model=MigrationAnswer,
        responses=problems(
            400,
            404,
            409,
            413,
            422,
            502,
            503,
            ok={"model": DryRunAnswer, "description": "Dry run: nothing was written"},
        ),
    )
    async def start_migration(
        body: MigrationCreate,
        query: MigrationOptionsQuery,
        response: Response,
        idempotency_key: IdempotencyKey = None,
    ) -> MigrationAnswer | JSONResponse:
        """Start a migration. 202: its record is in the Northbound database; a dry run answers 200."""
        request = body.to_core(idempotency_key)
        if query.dry_run or body.dry_run:
            result = dry_run_answer(await controller.dry_run(request), request)
            return JSONResponse(result.model_dump(mode="json"))
        record = await controller.migrate(request)
        response.headers["Location"] = migration_url(record.id)
        return migration_answer(record)

    @router.get("", operation_id="listMigrations", responses=problems(404, 422, 503))
    async def list_migrations(query: MigrationFilterQuery) -> MigrationList:
        """Migrations in flight and each UDN's last ended ones, newest first; ``all``: older ones too."""
        old = await controller.old_migrations(udn=query.udn) if query.all else ()
        try:
            records = await controller.migrations(udn=query.udn)
        except NotFound:
            if not old:
                raise
            records = ()
        known = {record.id for record in records}
        answers = [migration_answer(r) for r in records]
        answers += [migration_answer(r, from_history=True) for r in old if r.id not in known]
        return MigrationList(migrations=sorted(answers, key=lambda a: a.created_at, reverse=True))

    @router.get("/{migration_id}", operation_id="getMigration", responses=problems(404, 422, 503))
    async def get_migration(migration_id: MigrationPath, _query: NoQueryParameters) -> MigrationAnswer:
        """Where a migration stands and what it waits for; an old one comes from the controller's history."""
        try:
            return migration_answer(await controller.migration(migration_id))
        except NotFound:
            return migration_answer(await controller.old_migration(migration_id), from_history=True)

    @router.delete(
        "/{migration_id}",
        operation_id="cancelMigration",
        status_code=202,
        responses=problems(404, 409, 422, 503),
    )
    async def cancel_migration(
        migration_id: MigrationPath, _query: NoQueryParameters, response: Response
    ) -> MigrationAnswer:
        """Cancel: rolls back while the switch is not committed; afterwards it only ends the overlap, or is a
        409."""
        record = await controller.cancel(migration_id)
        response.headers["Location"] = migration_url(record.id)
        return migration_answer(record)

    @router.post(
        "/{migration_id}/switch",
        operation_id="switchMigration",
        status_code=202,
        responses=problems(404, 409, 422, 503),
    )
    async def switch_migration(
        migration_id: MigrationPath,
        _query: NoQueryParameters,
        response: Response,
        _key: IdempotencyKey = None,
    ) -> MigrationAnswer:
        """Order the switch of a migration whose trigger is manual (or do not wait for the VM). Repeating is
        harmless."""
        record = await controller.switch(migration_id)
        response.headers["Location"] = migration_url(record.id)
        return migration_answer(record)

    return router
