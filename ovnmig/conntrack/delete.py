"""Deleting entries: one by one, by tuple, zone and the kernel's id. There is no way here to flush.

A delete message without a tuple would empty the whole namespace on kernels before 6.8 and a zone on
later ones; every message built here has a tuple.
"""

from __future__ import annotations

import errno

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack.dump import check_zones, dump_zones
from ovnmig.conntrack.hashing import Hashes
from ovnmig.conntrack.lookup import look_up
from ovnmig.conntrack.messages import MessageFlag
from ovnmig.conntrack.records import Batch, Group
from ovnmig.conntrack.socket import SEND_MAX, NetlinkSocket
from ovnmig.conntrack.transform import Transformer


def delete_records(
    sock: NetlinkSocket, batch: Batch, zone: int, transformer: Transformer | None = None
) -> int:
    """Deletes the entries that are exactly those of ``batch`` (tuple and translation), returns how many.

    What is gone already, or was reborn with another translation, is left alone and not counted.
    """
    check_zones([zone])
    reader = transformer or Transformer()
    done = 0
    for group in batch:
        live = look_up(sock, group, zone, reader)
        ours = live.present & (live.identity == group.identities())
        done += int(delete_by_id(sock, group.pick(ours), live.ids[ours], zone).sum())
    return done


def delete_keys(sock: NetlinkSocket, zone: int, keys: Hashes, transformer: Transformer | None = None) -> int:
    """Deletes the entries of a zone whose keys are given: dumps the zone to find their tuples."""
    wanted = np.unique(keys)
    if not wanted.size:
        return 0
    hits: list[Group] = []
    for _, batch in dump_zones(sock, [zone], transformer):
        for group in batch:
            chosen = np.isin(group.keys(), wanted)
            if chosen.any():
                hits.append(group.pick(chosen))
    return sum(int(delete_by_id(sock, group, group.ids, zone).sum()) for group in hits)


def delete_by_id(sock: NetlinkSocket, group: Group, ids: NDArray[np.uint32], zone: int) -> NDArray[np.bool_]:
    """Deletes each row's entry if it still has that id; True where it did."""
    table = np.column_stack((group.values, ids.astype(np.uint32, copy=False)))
    gone = np.ones(len(group), dtype=np.bool_)
    for start in range(0, len(group), SEND_MAX):
        part = table[start : start + SEND_MAX]
        first = sock.take_seq(part.shape[0])
        batch = group.shape.delete.build(part, zone, MessageFlag.REQUEST, first)
        errors, _, _ = sock.transact(batch)
        for seq, code in errors.items():
            gone[start + seq - first] = False
            if code != errno.ENOENT:
                raise OSError(code, "the kernel refused to delete an entry")
    return gone
