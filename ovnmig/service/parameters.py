"""Path, query and header parameters that several routes share. Unknown query parameters are refused."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import Field

from ovnmig.service.fields import NameField, RequestModel, UdnNameField

UdnPath = Annotated[
    UdnNameField,
    Path(description="the UDN's name, percent-encoded (spaces, dots, quotes and unicode work; '/' does not)"),
]
MigrationPath = Annotated[NameField, Path(description="the migration's id")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="the same key again answers with what the first request started",
    ),
]
LastEventId = Annotated[
    int | None,
    Header(alias="Last-Event-ID", ge=0, le=2**53, description="as ?after=; sent by EventSource clients"),
]


class NoQuery(RequestModel):
    """A route without query parameters."""


class MigrationFilter(RequestModel):
    """GET /v1/migrations."""

    udn: Annotated[UdnNameField | None, Field(description="only those of this UDN")] = None
    all: Annotated[
        bool, Field(description="older ones too, from the controller's history: the newest 1000")
    ] = False


class MigrationOptions(RequestModel):
    """POST /v1/migrations."""

    dry_run: Annotated[bool, Field(description="only check and plan; nothing is written")] = False


class EventOptions(RequestModel):
    """GET /v1/events."""

    after: Annotated[
        int | None, Field(ge=0, le=2**53, description="history after this seq; 0: all; left out: only new")
    ] = None
    follow: Annotated[bool, Field(description="false: end after the history instead of waiting for more")] = (
        True
    )
    migration: Annotated[NameField | None, Field(description="only events of this migration")] = None


NoQueryParameters = Annotated[NoQuery, Query()]
MigrationFilterQuery = Annotated[MigrationFilter, Query()]
MigrationOptionsQuery = Annotated[MigrationOptions, Query()]
EventQuery = Annotated[EventOptions, Query()]
