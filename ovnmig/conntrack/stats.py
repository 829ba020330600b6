"""What the kernel's connection tracking is set to in this namespace, and how full its table is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SYSCTL = Path("/proc/sys/net/netfilter")


@dataclass(frozen=True, slots=True)
class TableStats:
    """Entries now and at most (both of the whole namespace), and the switches that matter here.

    events: 0 none, 1 always, 2 only for entries born while somebody listens. A value is None where
    the kernel does not have the switch.
    """

    count: int
    max: int
    events: int | None
    be_liberal: bool | None
    loose: bool | None

    @property
    def room(self) -> int:
        """How many entries may still be created; the limit is advisory, the kernel evicts at it."""
        return max(self.max - self.count, 0)


def table_stats(root: Path = SYSCTL) -> TableStats:
    """Reads the switches. Raises FileNotFoundError when connection tracking is not in the kernel."""
    return TableStats(
        int((root / "nf_conntrack_count").read_text()),
        int((root / "nf_conntrack_max").read_text()),
        _number(root / "nf_conntrack_events"),
        _switch(root / "nf_conntrack_tcp_be_liberal"),
        _switch(root / "nf_conntrack_tcp_loose"),
    )


def _number(path: Path) -> int | None:
    return int(path.read_text()) if path.exists() else None


def _switch(path: Path) -> bool | None:
    value = _number(path)
    return None if value is None else bool(value)
