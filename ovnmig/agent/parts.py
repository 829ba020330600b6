"""What the control API works on, put together once."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from ovnmig.agent.announce import Announcements
from ovnmig.agent.node import Node
from ovnmig.agent.stream import StreamServer
from ovnmig.agent.transfers import Transfers
from ovnmig.conntrack import table_stats


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running agent. ``stream_port`` is where streams really come in."""

    node: Node
    transfers: Transfers
    announcements: Announcements
    streams: StreamServer
    stream_port: int

    def alarms(self) -> tuple[str, ...]:
        """In words: what is wrong with streams from here and to here."""
        return (*self.transfers.alarms(), *self.streams.faults.alarms())

    def metrics(self) -> bytes:
        """Prometheus' text format, read off the parts at the moment of asking."""
        registry = CollectorRegistry()
        registry.register(_Reader(self))
        return generate_latest(registry)


class _Reader(Collector):
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @override
    def collect(self) -> list[GaugeMetricFamily | CounterMetricFamily]:
        parts, table = self._parts, table_stats()
        gauges = {
            "ovnmig_agent_conntrack_entries": ("Entries of the node's connection table", table.count),
            "ovnmig_agent_conntrack_entries_max": ("Entries the table may hold", table.max),
            "ovnmig_agent_streams": ("Streams of other agents open now", parts.streams.active),
            "ovnmig_agent_announcements_armed": ("Announcements armed now", len(parts.announcements)),
            "ovnmig_agent_put_back": (
                "Vanished copies of known transfers, sent again",
                parts.transfers.put_back,
            ),
            "ovnmig_agent_announcement_frames": ("Frames of those sent", parts.announcements.frames_sent),
        }
        out: list[GaugeMetricFamily | CounterMetricFamily] = [
            GaugeMetricFamily(name, text, value) for name, (text, value) in gauges.items()
        ]
        out.append(
            CounterMetricFamily(
                "ovnmig_agent_applied", "Entries of ended streams that were applied", parts.streams.applied
            )
        )
        faults = CounterMetricFamily(
            "ovnmig_agent_stream_faults", "Streams that broke or were refused", labels=["side", "kind"]
        )
        for (side, kind), count in sorted(parts.streams.faults.counts.items()):
            faults.add_metric([side, kind], count)
        out.append(faults)
        entries = GaugeMetricFamily(
            "ovnmig_agent_transfer_entries", "Entries of transfers by fate", labels=["transfer", "fate"]
        )
        pending = GaugeMetricFamily(
            "ovnmig_agent_transfer_pending",
            "Entries sent and not answered, or known to differ",
            labels=["transfer"],
        )
        for status in parts.transfers.all():
            counts = status.counts
            for fate in ("read", "created", "identical", "replaced", "lost"):
                entries.add_metric([status.id, fate], getattr(counts, fate))
            entries.add_metric([status.id, "refused"], counts.refused_total)
            pending.add_metric([status.id], status.pending)
        return [*out, entries, pending]
