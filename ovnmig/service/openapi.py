"""The OpenAPI document: problem documents on every operation, no generated validation schema of the framework."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ovnmig.service.examples import PROBLEM
from ovnmig.service.problems import MEDIA_TYPE, ProblemDocument

_MEANINGS = {
    400: "The request could not be read",
    404: "No such UDN, migration or chassis",
    409: "Clashes with what is going on or with what others hold",
    422: "Invalid request, or refused: the problems say what to do",
    500: "Internal error",
    502: "An agent does not answer or refused",
    503: "Databases are not reachable, or this replica only serves reads",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an operation that may answer with problem documents of these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}, "example": PROBLEM}}
    return {
        status: {"description": _MEANINGS[status], "content": content} for status in sorted({*statuses, 500})
    }


def install(app: FastAPI) -> None:
    """Let ``app`` describe its problem documents."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(problem.pop("$defs", {}))
            schemas["ProblemDocument"] = problem
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]
