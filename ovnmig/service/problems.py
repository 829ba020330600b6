"""Problem documents (RFC 9457): every error of the service, whatever raised it, in one shape."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from ovnmig.core.rows import EpochConflict
from ovnmig.core.udn import Problem, Refused
from ovnmig.engine.protocols import (
    AgentRefused,
    AgentUnreachable,
    Conflict,
    DatabaseUnavailable,
    NotFound,
    NotLeader,
)
from ovnmig.service.fields import AnswerModel
from ovnmig.service.words import what_to_write

MEDIA_TYPE = "application/problem+json"
PROBLEMS_MAX = 20
"""Wrong fields that one answer names: a body may hold a hundred thousand of them."""
FIELD_MAX = 100
"""Characters of a field's name in an answer: unknown fields may have any."""
_log = structlog.get_logger("ovnmig.service")


class ProblemItem(AnswerModel):
    """One reason. ``code`` is stable; ``field`` names the offending field of the request, if it is one."""

    code: str
    message: str
    field: str | None = None


class ProblemDocument(AnswerModel):
    """What went wrong and what to do about it."""

    type: str = Field(description="urn:ovnmig:problem:<kind>, stable")
    title: str
    status: int
    detail: str
    problems: list[ProblemItem]


def document(
    status: int, kind: str, title: str, detail: str, problems: Sequence[ProblemItem] = ()
) -> ProblemDocument:
    """Build a problem document of that kind."""
    return ProblemDocument(
        type=f"urn:ovnmig:problem:{kind}", title=title, status=status, detail=detail, problems=list(problems)
    )


def answer(problem: ProblemDocument, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The HTTP response that carries ``problem``."""
    return JSONResponse(
        problem.model_dump(mode="json"), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers
    )


def item(problem: Problem) -> ProblemItem:
    """The wire form of a core problem."""
    return ProblemItem(code=problem.code, message=problem.message, field=problem.field)


def refused(error: Refused) -> ProblemDocument:
    """409 when something that is wanted is held by something else, else 422."""
    conflict = any(p.conflict for p in error.problems)
    status, kind, title = (409, "conflict", "Conflict") if conflict else (422, "refused", "Request refused")
    return document(status, kind, title, str(error) or title, [item(p) for p in error.problems])


def describe(error: Exception) -> ProblemDocument:
    """The problem document for an exception of the controller's API."""
    words = str(error)
    match error:
        case Refused():
            return refused(error)
        case NotFound():
            return document(404, "not-found", "Not found", words)
        case Conflict():
            return document(409, "conflict", "Conflict", words)
        case EpochConflict():
            return document(
                409,
                "changed-meanwhile",
                "Changed meanwhile",
                words or "the UDN was changed meanwhile; send it again",
            )
        case NotLeader():
            return document(503, "not-leader", "Not the active controller", words)
        case DatabaseUnavailable():
            return document(503, "database-unavailable", "OVN database unavailable", words)
        case AgentUnreachable():
            return document(502, "agent-unreachable", "Agent unreachable", words)
        case AgentRefused():
            return document(502, "agent-refused", "Agent refused", words)
        case _:
            return document(
                500,
                "internal",
                "Internal error",
                f"{type(error).__name__}; the service's log has the details",
            )


def field_name(location: Sequence[int | str]) -> str:
    """``("body", "vips", 0)`` -> ``vips[0]``; query and header parameters keep their place in front."""
    place, *rest = location or ("body",)
    name = ""
    for part in rest:
        name += f"[{part}]" if isinstance(part, int) else (f".{part}" if name else str(part))
    return name if place == "body" else f"{place}.{name}" if name else str(place)


_OBJECT = "send one JSON object, with 'Content-Type: application/json'"


def validation_item(error: Mapping[str, Any], known: Sequence[str] = ()) -> ProblemItem:
    """A validation error in words. ``known``: the fields the body may have, to suggest one for a misspelt
    name."""
    field = field_name(error["loc"])
    code = str(error["type"]).replace("_", "-")
    message = what_to_write(error)
    match error["type"]:
        case "extra_forbidden":
            close = difflib.get_close_matches(str(error["loc"][-1])[:FIELD_MAX], known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "remove it"
            code, message = "unknown-field", f"unknown field; {hint}"
        case "missing":
            code, message = (
                "missing-field",
                "this field is required" if field else f"there is no body; {_OBJECT}",
            )
        case "model_attributes_type":
            code, message = "not-an-object", _OBJECT
        case "json_invalid":
            code, message = (
                "not-json",
                f"the body is not valid JSON: {error.get('ctx', {}).get('error', message)}",
            )
            field = ""
    return ProblemItem(code=code, message=message, field=field[:FIELD_MAX] or None)


def invalid(errors: Sequence[Mapping[str, Any]], known: Sequence[str] = ()) -> ProblemDocument:
    """422 for a request that does not have the documented form."""
    items = [validation_item(e, known) for e in errors[:PROBLEMS_MAX]]
    if len(errors) > PROBLEMS_MAX:
        more = f"{len(errors) - PROBLEMS_MAX} more fields are wrong"
        items.append(ProblemItem(code="more", message=more))
    detail = "; ".join(f"{i.field}: {i.message}" if i.field else i.message for i in items)
    return document(422, "invalid-request", "Invalid request", detail, items)


def _body_fields(request: Request) -> list[str]:
    route = request.scope.get("route")
    model = getattr(getattr(route, "body_field", None), "field_info", None)
    return list(getattr(getattr(model, "annotation", None), "model_fields", {}))


def allowed_methods(request: Request, routes: Sequence[BaseRoute]) -> str:
    """The methods of every route that has the request's path (the framework names the first one's only)."""
    found: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.path_regex.match(request.scope["path"]):
            found |= route.methods or set()
    return ", ".join(sorted(found)) or "GET"


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Turn every exception of ``app`` into a problem document. ``routes``: all, for the 405's Allow."""

    async def on_known(_request: Request, error: Exception) -> JSONResponse:
        problem = describe(error)
        return answer(
            problem, {"Retry-After": "2"} if problem.status == HTTPStatus.SERVICE_UNAVAILABLE else None
        )

    async def on_invalid(request: Request, error: Exception) -> JSONResponse:
        return answer(invalid(cast(RequestValidationError, error).errors(), _body_fields(request)))

    async def on_http(request: Request, raised: Exception) -> JSONResponse:
        error = cast(HTTPException, raised)
        title = HTTPStatus(error.status_code).phrase
        detail = str(error.detail)
        headers: Mapping[str, str] | None = error.headers
        if error.status_code == HTTPStatus.NOT_FOUND:
            detail = f"nothing is served at {request.url.path}; the API is described at /openapi.json"
        elif error.status_code == HTTPStatus.BAD_REQUEST:
            detail = "the body cannot be read: send one JSON object in UTF-8"
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = allowed_methods(request, routes)
            detail, headers = f"{request.method} is not possible here; allowed: {allowed}", {"Allow": allowed}
        kind = title.lower().replace(" ", "-")
        return answer(document(error.status_code, kind, title, detail), headers)

    async def on_unknown(_request: Request, error: Exception) -> JSONResponse:
        _log.error("request failed", error=repr(error))  # the server logs the traceback
        return answer(describe(error))

    known = (
        Refused, NotFound, Conflict, EpochConflict, NotLeader, DatabaseUnavailable,
        AgentUnreachable, AgentRefused,
    )  # fmt: skip
    for kind in known:
        app.add_exception_handler(kind, on_known)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_unknown)
