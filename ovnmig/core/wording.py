"""Small changes of a record that many rows make, and the pauses between two looks."""

from __future__ import annotations

from dataclasses import replace

from ovnmig.core import legs
from ovnmig.core.events import (
    CopyObserved,
    Finished,
)
from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.transfer import TransferState

POLL_S = 0.1
"""Pause between two looks while something is about to happen."""
WATCH_S = 1.0
"""Pause between two looks while nothing is."""


def waiting(record: MigrationRecord, words: str) -> MigrationRecord:
    """The record, saying what it waits for."""
    return replace(record, waits_for=words)


def because(record: MigrationRecord, words: str) -> MigrationRecord:
    """The record with its first reason; later ones do not overwrite it."""
    return record if record.reason else replace(record, reason=words)


def warned(record: MigrationRecord, words: str) -> MigrationRecord:
    """The record with a warning more, once."""
    return (
        record
        if not words or words in record.warnings
        else replace(record, warnings=(*record.warnings, words))
    )


def counted(record: MigrationRecord, statuses: legs.Statuses) -> MigrationRecord:
    """The record with what became of the entries."""
    return replace(record, counts=legs.counts_of(statuses), unmoved=legs.unmoved_of(statuses))


def seen(record: MigrationRecord, event: CopyObserved | Finished) -> MigrationRecord:
    """The record with the counts and warnings of an observation."""
    record = counted(record, event.statuses)
    port = event.statuses.get(Leg.PORT)
    if port is not None and port.state is TransferState.FAILED:
        record = warned(record, f"the VM's own zone could not be moved: {port.reason or 'no reason given'}")
    return record
