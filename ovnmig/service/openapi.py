"""The OpenAPI document: problem documents on every operation, no generated validation schema of the
framework."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ovnmig.service.examples import EVENT, PROBLEM
from ovnmig.service.problems import MEDIA_TYPE, ProblemDocument
from ovnmig.service.wire_node import EventAnswer

STREAM = "text/event-stream"
_STREAM_EXAMPLE = f"data: {json.dumps(EVENT)}\nid: {EVENT['seq']}\n\n"

_MEANINGS = {
    400: "The request could not be read",
    404: "No such UDN, migration or chassis",
    409: "Clashes with what is going on or with what others hold",
    413: "The body is too large",
    422: "Invalid request, or refused: the problems say what to do",
    500: "Internal error",
    502: "An agent does not answer or refused",
    503: "Databases are not reachable, or this replica only serves reads",
}


def problems(*statuses: int, ok: dict[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an operation that may answer with problem documents of these statuses.

    ``ok`` describes a 200 beside the operation's usual status.
    """
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    content = {MEDIA_TYPE: {"schema": schema, "example": PROBLEM}}
    found: dict[int | str, dict[str, Any]] = {} if ok is None else {200: ok}
    for status in sorted({*statuses, 500}):
        found[status] = {"description": _MEANINGS[status], "content": content}
    return found


def _describe_streams(schema: dict[str, Any]) -> None:
    """The framework writes ``itemSchema`` of OpenAPI 3.2; 3.1 tools know a stream as text only."""
    components = schema["components"]["schemas"]
    components.pop("ServerSentEvent", None)
    components["EventAnswer"] = EventAnswer.model_json_schema(mode="serialization")
    words = "server-sent events; the data of each is JSON as described by components/schemas/EventAnswer"
    for operations in schema["paths"].values():
        for operation in operations.values():
            content = operation["responses"].get("200", {}).get("content", {})
            if STREAM in content:
                content[STREAM] = {
                    "schema": {"type": "string", "description": words},
                    "example": _STREAM_EXAMPLE,
                }


def _share_problems(schema: dict[str, Any]) -> None:
    """One description per problem status instead of one per operation."""
    shared: dict[str, Any] = {}
    for operations in schema["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if MEDIA_TYPE in response.get("content", {}):
                    shared[f"Problem{status}"] = response
                    operation["responses"][status] = {"$ref": f"#/components/responses/Problem{status}"}
    schema["components"]["responses"] = dict(sorted(shared.items()))


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
            _describe_streams(schema)
            _share_problems(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]
