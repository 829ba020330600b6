"""Moving connection tracking entries from one kernel to another, zone by zone.

Source side::

    with NetlinkSocket() as sock:
        for zone, batch in dump_zones(sock, [12]):     # or read_zone(sock, 12): masters first
            for part in batch.split(20_000):
                send(encode(part))                     # bytes for the wire, without zone numbers

Target side::

    batch = decode(data)                               # BadRecords: nothing of it is applied
    outcome = Applier(sock).apply(batch, zone=7)       # the number looked up by name here
    missing = missing_records(sock, 7, batch)          # read back

Staying in step: an EventSocket made before the first dump; a Ledger of what was sent, ``compare`` it with
a second dump; ``delete_records`` and ``delete_keys`` for what ended. All sockets work in the network
namespace of the thread that makes them and need CAP_NET_ADMIN there. Nothing in here flushes a zone and
zone 0 is never read or written.
"""

from __future__ import annotations

from ovnmig.conntrack.delete import delete_keys, delete_records
from ovnmig.conntrack.diff import Difference, Ledger
from ovnmig.conntrack.dump import BadZone, DumpReport, dump_zones, kernel_filters_zones, read_zone
from ovnmig.conntrack.entry import Entry, describe, entries
from ovnmig.conntrack.events import Events, EventSocket, ZoneEvents, ensure_events
from ovnmig.conntrack.hashing import Hashes, among, from_wire, joined, to_wire
from ovnmig.conntrack.insert import Applier
from ovnmig.conntrack.keytable import KeyTable
from ovnmig.conntrack.outcome import Outcome, Refusal
from ovnmig.conntrack.promote import at_least, promote
from ovnmig.conntrack.records import MAX_ROWS, BadRecords, Batch, Group, decode, encode, merge
from ovnmig.conntrack.socket import NetlinkError, NetlinkSocket
from ovnmig.conntrack.stats import TableStats, table_stats
from ovnmig.conntrack.transform import Transformer
from ovnmig.conntrack.verify import (
    absent_records,
    apply_and_verify,
    identities_in,
    missing_identities,
    missing_records,
)

__all__ = [
    "MAX_ROWS",
    "Applier",
    "BadRecords",
    "BadZone",
    "Batch",
    "Difference",
    "DumpReport",
    "Entry",
    "EventSocket",
    "Events",
    "Group",
    "Hashes",
    "KeyTable",
    "Ledger",
    "NetlinkError",
    "NetlinkSocket",
    "Outcome",
    "Refusal",
    "TableStats",
    "Transformer",
    "ZoneEvents",
    "absent_records",
    "among",
    "apply_and_verify",
    "at_least",
    "decode",
    "delete_keys",
    "delete_records",
    "describe",
    "dump_zones",
    "encode",
    "ensure_events",
    "entries",
    "from_wire",
    "identities_in",
    "joined",
    "kernel_filters_zones",
    "merge",
    "missing_identities",
    "missing_records",
    "promote",
    "read_zone",
    "table_stats",
    "to_wire",
]
