"""Prometheus metrics: what the engine counts (:class:`ovnmig.engine.counters.Counters`)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from ovnmig.core.migration import ENDED, MigrationRecord
from ovnmig.core.replication import CopyState, Standby

disable_created_metrics()  # type: ignore[no-untyped-call]
_PHASE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
REMEMBERED = 10_000
"""Ended migrations remembered so that none is counted twice."""
_COPY_GAUGES = {
    "in_step": "1 while the standby's copy is in step, else 0",
    "pending": "Entries on their way to the standby",
    "synced_timestamp_seconds": "When the standby last confirmed everything sent before (Unix time)",
    "refused": "Entries that the standby refuses",
    "lost": "Entries that the standby's kernel took and does not have",
    "put_back": "Copies that had vanished from the standby and were sent again",
}
OUTCOMES = ("read", "created", "identical", "replaced", "refused", "lost")


class Metrics:
    """The metrics of one service; every instance has a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._migrations = Counter(
            "ovnmig_migrations",
            "Migrations that ended, by their last phase",
            ["phase"],
            registry=self.registry,
        )
        self._in_flight = Gauge("ovnmig_migrations_in_flight", "Migrations in flight", registry=self.registry)
        self._phase_s = Histogram(
            "ovnmig_phase_seconds",
            "Seconds that ended migrations spent in each phase",
            ["phase"],
            buckets=_PHASE_BUCKETS,
            registry=self.registry,
        )
        self._entries = Counter(
            "ovnmig_entries",
            "Conntrack entries of ended migrations, by outcome",
            ["outcome"],
            registry=self.registry,
        )
        self._refused = Counter(
            "ovnmig_entries_refused",
            "Entries that targets refused, by reason",
            ["reason"],
            registry=self.registry,
        )
        self._effects = Counter(
            "ovnmig_effect_failures", "Steps that failed, by effect", ["effect"], registry=self.registry
        )
        self._broken = Counter(
            "ovnmig_invariants_broken", "Things that must hold and did not: defects", registry=self.registry
        )
        self._failovers = Counter(
            "ovnmig_replication_failovers",
            "Gateways taken over by a standby without an order",
            ["udn"],
            registry=self.registry,
        )
        self._orphans = Counter(
            "ovnmig_orphans_ended",
            "Orders left on agents that nobody wanted any more and that were ended",
            ["kind"],
            registry=self.registry,
        )
        self._copies = {
            name: Gauge(f"ovnmig_replication_{name}", words, ["udn", "chassis"], registry=self.registry)
            for name, words in _COPY_GAUGES.items()
        }
        self._standbys: dict[str, tuple[str, ...]] = {}
        self._flying: set[str] = set()
        self._ended: dict[str, None] = {}
        for phase in ENDED:
            self._migrations.labels(phase.value)
        for outcome in OUTCOMES:
            self._entries.labels(outcome)

    def effect_failed(self, effect: str) -> None:
        """A step of a migration failed."""
        self._effects.labels(effect).inc()

    def invariant_broken(self, words: str) -> None:
        """Something that must hold did not; the log and the history have the words."""
        self._broken.inc()

    def failed_over(self, udn: str) -> None:
        """A standby took a gateway over without an order."""
        self._failovers.labels(udn).inc()

    def orphan_ended(self, kind: str) -> None:
        """An order that nobody wanted any more was ended on its agent."""
        self._orphans.labels(kind).inc()

    def replication_seen(self, udn: str, standbys: tuple[Standby, ...]) -> None:
        """How the copies of a UDN stand; those it no longer has leave the metrics."""
        names = tuple(one.chassis for one in standbys)
        for gone in set(self._standbys.get(udn, ())) - set(names):
            for gauge in self._copies.values():
                gauge.remove(udn, gone)
        self._standbys[udn] = names
        for one in standbys:
            values = {
                "in_step": float(one.state is CopyState.IN_STEP),
                "pending": one.pending,
                "synced_timestamp_seconds": one.synced_at or 0.0,
                "refused": one.refused,
                "lost": one.lost,
                "put_back": one.put_back,
            }
            for name, value in values.items():
                self._copies[name].labels(udn, one.chassis).set(value)

    def migration_changed(self, record: MigrationRecord) -> None:
        """A migration entered a phase; an ended one is counted once, however often this is told."""
        if record.phase not in ENDED:
            self._flying.add(record.id)
        elif record.id not in self._ended:
            self._flying.discard(record.id)
            self._ended[record.id] = None
            while len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]
            self._count(record)
        self._in_flight.set(len(self._flying))

    def _count(self, record: MigrationRecord) -> None:
        self._migrations.labels(record.phase.value).inc()
        for (phase, entered), (_, left) in pairwise(record.phase_times):
            self._phase_s.labels(phase.value).observe(max(0.0, left - entered))
        counts = record.counts
        outcomes: Mapping[str, int] = {
            "read": counts.read,
            "created": counts.created,
            "identical": counts.identical,
            "replaced": counts.replaced,
            "refused": counts.refused_total,
            "lost": counts.lost,
        }
        for outcome, number in outcomes.items():
            self._entries.labels(outcome).inc(number)
        for reason, number in counts.refused.items():
            self._refused.labels(reason).inc(number)

    def render(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self.registry)
