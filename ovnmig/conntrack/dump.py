"""Reading zones: one dump per zone where the kernel filters, one for all where it does not.

Kernels from 6.8 on filter a dump by CTA_ZONE and say so with NLM_F_DUMP_FILTERED. Older ones ignore the
attribute and send the table of the whole namespace, so every record is checked here as well. A dump has
no snapshot: an entry that was deleted while the kernel stood on it makes a hash bucket come again, so
entries may come twice and whoever applies them has to be idempotent.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from ovnmig.conntrack import attrs
from ovnmig.conntrack.messages import CT_GET, MessageFlag, message
from ovnmig.conntrack.records import Batch, merge
from ovnmig.conntrack.socket import NetlinkSocket
from ovnmig.conntrack.transform import Transformer

ZONE_MAX = 0xFFFF


class BadZone(ValueError):
    """A zone number that is not 1..65535. Zone 0 belongs to the host and is never read."""


@dataclass(slots=True)
class DumpReport:
    """Filled while a dump is read: entries by zone, and what cannot move, counted by reason."""

    read: Counter[int] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    kernel_filter: bool = False


def kernel_filters_zones(release: str | None = None) -> bool:
    """Whether the kernel knows CTA_ZONE in a dump: 6.8 and later, judged by its release string."""
    found = re.match(r"(\d+)\.(\d+)", release if release is not None else os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= (6, 8)


def check_zones(zones: Iterable[int]) -> frozenset[int]:
    """The zones as a set; raises BadZone for 0 and what is not 16 bits."""
    wanted = frozenset(zones)
    for zone in wanted:
        if not 1 <= zone <= ZONE_MAX:
            raise BadZone(f"zone {zone} is not 1..{ZONE_MAX}; look the number up by name in br-int")
    return wanted


def dump_zones(
    sock: NetlinkSocket,
    zones: Iterable[int],
    transformer: Transformer | None = None,
    report: DumpReport | None = None,
    kernel_filter: bool | None = None,
) -> Generator[tuple[int, Batch]]:
    """Yields ``(zone, records)`` in pieces of some thousand entries as the kernel delivers them.

    Other zones and zone 0 never appear. Pieces come in the kernel's order: entries that have a master
    may precede it (``read_zone`` sorts). ``kernel_filter`` overrides the look at the kernel's release.
    Raises BadZone and NetlinkError.
    """
    wanted = check_zones(zones)
    reader = transformer or Transformer()
    told = report if report is not None else DumpReport()
    filtering = kernel_filters_zones() if kernel_filter is None else kernel_filter
    requests: list[tuple[bytes, frozenset[int]]] = []
    if filtering:
        requests = [
            (attrs.attr(attrs.ZONE, zone.to_bytes(2, "big")), frozenset({zone})) for zone in sorted(wanted)
        ]
    elif wanted:
        requests = [(b"", wanted)]
    for payload, some in requests:
        request = message(CT_GET, MessageFlag.REQUEST | MessageFlag.DUMP, sock.take_seq(), 0, payload)
        for chunk, flags in sock.dump(request):
            told.kernel_filter = bool(flags & MessageFlag.DUMP_FILTERED)
            found = reader.read(chunk, some)
            told.skipped.update(found.skipped)
            for zone in found.zones:
                batch = found.batch(zone)
                told.read[zone] += len(batch)
                yield zone, batch


def read_zone(
    sock: NetlinkSocket, zone: int, transformer: Transformer | None = None, report: DumpReport | None = None
) -> Batch:
    """A whole zone as one Batch, one Group per shape, those with a master last."""
    whole = merge(batch for _, batch in dump_zones(sock, [zone], transformer, report))
    masters, children = whole.masters_first()
    return Batch(masters.groups + children.groups)
