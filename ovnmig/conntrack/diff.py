"""Ledger: what the other side holds, as three hashes an entry, and a dump compared against it.

OVS announces neither state changes nor refreshed timeouts, so the final step of a transfer is a second
dump compared with what was sent. The ledger costs 24 bytes an entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack.hashing import Hashes
from ovnmig.conntrack.records import Batch


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
    """Sorted keys with identity and fingerprint. ``len`` is the number of sessions."""

    def __init__(self) -> None:
        self._keys: Hashes = np.empty(0, dtype=np.uint64)
        self._identities: Hashes = np.empty(0, dtype=np.uint64)
        self._prints: Hashes = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return int(self._keys.size)

    @property
    def keys(self) -> Hashes:
        """All keys, ascending. Do not write to it."""
        return self._keys

    @property
    def identities(self) -> Hashes:
        """Identities in the order of the keys. Do not write to it."""
        return self._identities

    def record(self, batch: Batch) -> None:
        """Notes records as sent; a later one of the same session replaces the earlier."""
        if not len(batch):
            return
        keys, last = _last_of_each(batch.keys())
        identities, prints = batch.identities()[last], batch.prints()[last]
        at, known = self._find(keys)
        self._identities[at[known]] = identities[known]
        self._prints[at[known]] = prints[known]
        new = ~known
        if new.any():
            where = np.searchsorted(self._keys, keys[new])
            self._keys = np.insert(self._keys, where, keys[new])
            self._identities = np.insert(self._identities, where, identities[new])
            self._prints = np.insert(self._prints, where, prints[new])

    def forget(self, keys: Hashes) -> None:
        """Takes sessions out: deleted on the other side, or refused there."""
        at, known = self._find(np.unique(keys))
        if known.any():
            stay = np.ones(self._keys.size, dtype=np.bool_)
            stay[at[known]] = False
            self._keys, self._identities, self._prints = (
                self._keys[stay],
                self._identities[stay],
                self._prints[stay],
            )

    def compare(self, batch: Batch, *, whole: bool = True) -> Difference:
        """Compares a dump with the ledger; pass ``whole=False`` if it is only a part of the zone."""
        keys = batch.keys()
        at, known = self._find(keys)
        safe = np.where(known, at, 0)
        if self._keys.size:
            same = known & (self._identities[safe] == batch.identities())
            equal = same & (self._prints[safe] == batch.prints())
        else:
            same = equal = np.zeros(keys.size, dtype=np.bool_)
        vanished = np.setdiff1d(self._keys, keys) if whole else np.empty(0, dtype=np.uint64)
        return Difference(batch.pick(~known), batch.pick(same & ~equal), batch.pick(known & ~same), vanished)

    def _find(self, keys: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        at = np.searchsorted(self._keys, keys)
        if not self._keys.size:
            return at, np.zeros(keys.size, dtype=np.bool_)
        inside = np.minimum(at, self._keys.size - 1)
        return inside, self._keys[inside] == keys


def _last_of_each(keys: Hashes) -> tuple[Hashes, NDArray[np.intp]]:
    """Distinct keys, ascending, and where each stands last."""
    distinct, first_from_end = np.unique(keys[::-1], return_index=True)
    return distinct, keys.size - 1 - first_from_end
