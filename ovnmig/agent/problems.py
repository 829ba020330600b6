"""Refusals as RFC 9457 problem documents."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """Answer a request with a problem document."""

    def __init__(self, status: HTTPStatus, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail


def document(status: HTTPStatus, kind: str, detail: str) -> JSONResponse:
    """``kind`` is a short code word that programs may rely on, ``detail`` says what to do."""
    body = {"type": f"urn:ovnmig:{kind}", "title": status.phrase, "status": status.value, "detail": detail}
    return JSONResponse(body, status.value, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every error of ``app`` a problem document."""

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> JSONResponse:
        return document(error.status, error.kind, error.detail)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        parts = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        return document(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", "; ".join(parts))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return document(HTTPStatus(error.status_code), "http", str(error.detail))
