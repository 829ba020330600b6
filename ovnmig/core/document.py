"""The JSON document in a UDN's record row: its spec, its members, the migration in flight and the last ended
ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ovnmig.core.codec import CodecError, from_plain, to_plain
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.udn import Member, UdnSpec

MAJOR = 1
"""Raised when an older ovnmig would misread the document. Added fields with defaults do not raise it."""
KEPT_ENDED = 5
"""Ended migrations that stay in the document; the journal keeps the rest."""


class DocumentError(ValueError):
    """The stored document cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class UdnDocument:
    """Everything stored about one UDN. ``ended``: newest first. ``grown_at``: when a chassis was last put
    into the HA set on request (Unix seconds; 0: long ago). BFD takes a moment to come up after that."""

    spec: UdnSpec
    members: tuple[Member, ...]
    migration: MigrationRecord | None = None
    ended: tuple[MigrationRecord, ...] = ()
    grown_at: float = 0.0

    def with_ended(self, record: MigrationRecord) -> UdnDocument:
        """With ``record`` first among the ended ones, and out of flight if it was in flight."""
        others = tuple(old for old in self.ended if old.id != record.id)
        in_flight = self.migration
        if in_flight is not None and in_flight.id == record.id:
            in_flight = None
        return replace(self, migration=in_flight, ended=(record, *others)[:KEPT_ENDED])

    def find_migration(self, migration_id: str) -> MigrationRecord | None:
        """The migration of that id, in flight or ended."""
        known = (*(() if self.migration is None else (self.migration,)), *self.ended)
        return next((record for record in known if record.id == migration_id), None)


def encode(document: UdnDocument) -> str:
    """JSON text, ASCII only and in a fixed order: equal documents give equal texts."""
    plain = {"version": MAJOR, "document": to_plain(document)}
    return json.dumps(plain, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


def decode(text: str) -> UdnDocument:
    """The document of :func:`encode`. Unknown fields are ignored. Raises DocumentError."""
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise DocumentError(f"the record row holds no JSON ({error}); it was edited by hand?") from None
    if not isinstance(plain, dict) or not isinstance(plain.get("version"), int):
        raise DocumentError("the record row's document has no version; it was not written by ovnmig")
    if plain["version"] != MAJOR:
        raise DocumentError(
            f"the record row was written in format {plain['version']}, this ovnmig reads {MAJOR}; "
            "use a version of ovnmig that reads it"
        )
    try:
        return from_plain(UdnDocument, plain.get("document"))
    except CodecError as error:
        raise DocumentError(f"the record row's document is damaged: {error}") from None
