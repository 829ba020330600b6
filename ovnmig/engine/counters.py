"""Where the engine counts what it does; the metrics of the service implement it."""

from __future__ import annotations

from typing import Protocol

from ovnmig.core.migration import MigrationRecord
from ovnmig.core.replication import Standby


class Counters(Protocol):
    """Called after the fact; must not raise and must not block."""

    def migration_changed(self, record: MigrationRecord) -> None:
        """A migration entered a phase (``record.phase``, ``record.phase_times``)."""

    def effect_failed(self, effect: str) -> None:
        """An order (name of the effect) was answered with a problem."""

    def invariant_broken(self, words: str) -> None:
        """Something that must hold did not; a defect."""

    def replication_seen(self, udn: str, standbys: tuple[Standby, ...]) -> None:
        """How the copies of a UDN stand; none once it is not replicated any more."""

    def failed_over(self, udn: str) -> None:
        """A gateway was taken over by a standby without an order of ours."""

    def orphan_ended(self, kind: str) -> None:
        """An order (``transfer``, ``announcement``) that nobody wanted any more was ended on its agent."""


class NoCounters:
    """Counts nothing."""

    def migration_changed(self, record: MigrationRecord) -> None:
        """Nothing."""

    def effect_failed(self, effect: str) -> None:
        """Nothing."""

    def invariant_broken(self, words: str) -> None:
        """Nothing."""

    def replication_seen(self, udn: str, standbys: tuple[Standby, ...]) -> None:
        """Nothing."""

    def failed_over(self, udn: str) -> None:
        """Nothing."""

    def orphan_ended(self, kind: str) -> None:
        """Nothing."""
