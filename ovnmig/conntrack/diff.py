"""Ledger: what the other side holds, as three hashes an entry, and a dump compared against it.

OVS announces neither state changes nor refreshed timeouts, so the final step of a transfer is a second
dump compared with what was sent. The ledger costs 50 to 200 bytes an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack.hashing import Hashes
from ovnmig.conntrack.keytable import KeyTable, Places
from ovnmig.conntrack.records import Batch

_SEEN: Final = 1


@dataclass(frozen=True, slots=True)
class Difference:
    """What has to be sent so that the other side is as the dump.

    new: not sent before. changed: same session and translation, other state, mark or label.
    reborn: same original tuple, other translation: delete the old copy, then create.
    vanished: keys that were sent and are not in the dump.
    """

    new: Batch
    changed: Batch
    reborn: Batch
    vanished: Hashes

    def __len__(self) -> int:
        return len(self.new) + len(self.changed) + len(self.reborn) + int(self.vanished.size)


class Ledger:
    """Keys with identity and fingerprint in a hash table. ``len`` is the number of sessions.

    Threads may share one: each call is whole. Two dumps at a time through one ledger are not.
    """

    def __init__(self) -> None:
        self._table = KeyTable(2)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def keys(self) -> Hashes:
        """All keys, ascending; made at each call. ``holds`` costs less."""
        with self._lock:
            return np.sort(self._table.keys_at(self._table.taken()))

    @property
    def identities(self) -> Hashes:
        """Identities in the order of the keys; made at each call."""
        with self._lock:
            taken = self._table.taken()
            return self._table.columns[0][taken][np.argsort(self._table.keys_at(taken))]

    def holds(self, keys: Hashes) -> NDArray[np.bool_]:
        """A mask over ``keys``: which are in here."""
        with self._lock:
            return self._table.holds(keys)

    def record(self, batch: Batch) -> None:
        """Notes records as sent; a later one of the same session replaces the earlier."""
        keys, identities, prints = batch.keys(), batch.identities(), batch.prints()
        with self._lock:
            at = self._table.add(keys)
            self._table.columns[0][at] = identities
            self._table.columns[1][at] = prints
            self._table.marks[at] = _SEEN

    def note(self, keys: Hashes, identities: Hashes) -> None:
        """Notes what was written to the kernel: without a fingerprint, and not as seen there."""
        with self._lock:
            at = self._table.add(keys)  # first: it may make the columns anew
            self._table.columns[0][at] = identities

    def forget(self, keys: Hashes) -> None:
        """Takes sessions out: deleted on the other side, or refused there."""
        with self._lock:
            self._table.remove(keys)

    def compare(self, batch: Batch, *, whole: bool = True) -> Difference:
        """Compares a dump with the ledger; pass ``whole=False`` if it is only a part of the zone."""
        if whole:
            self.begin()
        found = self.sift(batch)
        vanished = self.unseen() if whole else np.empty(0, dtype=np.uint64)
        return Difference(found.new, found.changed, found.reborn, vanished)

    def begin(self) -> None:
        """A dump begins whose pieces go through ``sift`` or ``tick``; ``unseen`` tells what was not in it."""
        with self._lock:
            self._table.marks[:] = 0

    def sift(self, piece: Batch) -> Difference:
        """A piece of a dump compared; nothing has ``vanished`` yet. What is recorded meanwhile is seen."""
        keys, identities, prints = piece.keys(), piece.identities(), piece.prints()
        with self._lock:
            found = self._table.find(keys)
            known = found >= 0
            at = found[known]
            self._table.marks[at] = _SEEN
            same, equal = known.copy(), known.copy()
            same[known] = self._table.columns[0][at] == identities[known]
            equal[known] = same[known] & (self._table.columns[1][at] == prints[known])
        nothing = np.empty(0, dtype=np.uint64)
        return Difference(piece.pick(~known), piece.pick(same & ~equal), piece.pick(known & ~same), nothing)

    def tick(self, keys: Hashes, identities: Hashes) -> None:
        """Sessions that were read back: those with the identity of the ledger are seen."""
        with self._lock:
            at, own = self._matching(keys, identities)
            self._table.marks[at[own]] = _SEEN

    def doubtful(self, keys: Hashes) -> NDArray[np.bool_]:
        """A mask over ``keys``: which are in here and have not been seen since ``begin``."""
        with self._lock:
            at = self._table.find(keys)
            unseen: NDArray[np.bool_] = (at >= 0) & (self._table.marks[at] != _SEEN)
            return unseen

    def matches(self, keys: Hashes, identities: Hashes) -> NDArray[np.bool_]:
        """A mask over ``keys``: which are in here with that identity."""
        with self._lock:
            return self._matching(keys, identities)[1]

    def _matching(self, keys: Hashes, identities: Hashes) -> tuple[Places, NDArray[np.bool_]]:
        at = self._table.find(keys)
        return at, (at >= 0) & (self._table.columns[0][at] == identities)

    def unseen(self) -> Hashes:
        """Keys, ascending, that have not been seen or recorded since ``begin``."""
        with self._lock:
            taken = self._table.taken()
            return np.sort(self._table.keys_at(taken[self._table.marks[taken] != _SEEN]))
