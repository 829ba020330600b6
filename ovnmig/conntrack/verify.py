"""Reading back: which records are not in the zone as they were sent."""

from __future__ import annotations

import numpy as np

from ovnmig.conntrack.dump import dump_zones
from ovnmig.conntrack.entry import entries
from ovnmig.conntrack.hashing import Hashes
from ovnmig.conntrack.insert import Applier
from ovnmig.conntrack.lookup import look_up
from ovnmig.conntrack.outcome import NAMED_MAX, Outcome
from ovnmig.conntrack.records import Batch
from ovnmig.conntrack.socket import NetlinkSocket
from ovnmig.conntrack.transform import Transformer


def identities_in(sock: NetlinkSocket, zone: int, transformer: Transformer | None = None) -> Hashes:
    """The identities (tuple and translation) of all entries of a zone, sorted."""
    parts = [batch.identities() for _, batch in dump_zones(sock, [zone], transformer)]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.uint64)


def missing_identities(
    sock: NetlinkSocket, zone: int, wanted: Hashes, transformer: Transformer | None = None
) -> Hashes:
    """Those of ``wanted`` that the zone does not hold: an empty array means the transfer is whole."""
    held = identities_in(sock, zone, transformer)
    asked: Hashes = np.unique(wanted)
    if not held.size:
        return asked
    at = np.searchsorted(held, asked)
    at[at == held.size] = 0
    lacking: Hashes = asked[held[at] != asked]
    return lacking


def missing_records(
    sock: NetlinkSocket, zone: int, batch: Batch, transformer: Transformer | None = None
) -> Batch:
    """The records of ``batch`` that the zone does not hold."""
    return batch.pick(~np.isin(batch.identities(), identities_in(sock, zone, transformer)))


def absent_records(
    sock: NetlinkSocket, zone: int, batch: Batch, transformer: Transformer | None = None
) -> Batch:
    """The records of ``batch`` that the kernel does not have when it is asked for each. For few of them."""
    reader = transformer or Transformer()
    out = []
    for group in batch:
        live = look_up(sock, group, zone, reader)
        absent = ~(live.present & (live.identity == group.identities()))
        if absent.any():
            out.append(group.pick(absent))
    return Batch(tuple(out))


def apply_and_verify(
    sock: NetlinkSocket, batch: Batch, zone: int, applier: Applier | None = None, *, room: int | None = None
) -> Outcome:
    """Applies records, reads the zone back, tries once more what is missing; the rest is ``lost``.

    ``missing`` of the outcome names lost entries (the first NAMED_MAX of them).
    """
    writer = applier or Applier(sock)
    out = writer.apply(batch, zone, room=room)
    refused = np.array(out.not_applied, dtype=np.uint64)
    expected = batch.pick(~np.isin(batch.keys(), refused)) if refused.size else batch
    missing = missing_records(sock, zone, expected)
    if len(missing):
        again = writer.apply(missing, zone)
        out.created -= len(missing)
        out.add(again)
        missing = missing_records(sock, zone, missing.pick(~np.isin(missing.keys(), _keys(again))))
        out.created -= len(missing)
        out.lost += len(missing)
        out.name(missing.keys().tolist(), "lost")
        for group in missing:
            out.missing.extend(str(entry) for entry in entries(group)[: NAMED_MAX - len(out.missing)])
    return out


def _keys(outcome: Outcome) -> Hashes:
    return np.array(outcome.not_applied, dtype=np.uint64)
