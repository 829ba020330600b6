"""Ledger: what the other side holds, as three hashes an entry, and a dump compared against it.

OVS announces neither state changes nor refreshed timeouts, so the final step of a transfer is a second
dump compared with what was sent. The ledger costs 24 bytes an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack.hashing import Hashes, places
from ovnmig.conntrack.records import Batch

_LATE_ROWS: Final = 1 << 14
_LATE_SHARE: Final = 16


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


class _Table:
    """Three columns, sorted by key: key, identity, fingerprint."""

    __slots__ = ("identities", "keys", "prints")

    def __init__(self) -> None:
        self.keys: Hashes = np.empty(0, dtype=np.uint64)
        self.identities: Hashes = np.empty(0, dtype=np.uint64)
        self.prints: Hashes = np.empty(0, dtype=np.uint64)

    def find(self, keys: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where each key is, valid only where it is known."""
        at = places(self.keys, keys)
        if not self.keys.size:
            return at, np.zeros(keys.size, dtype=np.bool_)
        inside = np.minimum(at, self.keys.size - 1)
        return inside, self.keys[inside] == keys

    def insert(self, keys: Hashes, identities: Hashes, prints: Hashes) -> None:
        """Adds rows whose keys are ascending and not in the table."""
        where = np.searchsorted(self.keys, keys) + np.arange(keys.size)
        old = np.ones(self.keys.size + keys.size, dtype=np.bool_)
        old[where] = False
        for name, added in (("keys", keys), ("identities", identities), ("prints", prints)):
            column = np.empty(old.size, dtype=np.uint64)
            column[old] = getattr(self, name)
            column[where] = added
            setattr(self, name, column)

    def write(self, at: NDArray[np.intp], identities: Hashes, prints: Hashes) -> None:
        """Overwrites rows."""
        self.identities[at] = identities
        self.prints[at] = prints


class Ledger:
    """Sorted keys with identity and fingerprint. ``len`` is the number of sessions.

    New rows go to a small table first and are merged into the large one now and then: writing the
    large one anew for every thousand rows would cost more than the kernel's work at a million.
    """

    def __init__(self) -> None:
        self._table = _Table()
        self._late = _Table()

    def __len__(self) -> int:
        return int(self._table.keys.size + self._late.keys.size)

    @property
    def keys(self) -> Hashes:
        """All keys, ascending. Do not write to it. ``holds`` is cheaper while rows are being added."""
        return self._whole().keys

    @property
    def identities(self) -> Hashes:
        """Identities in the order of the keys. Do not write to it."""
        return self._whole().identities

    def holds(self, keys: Hashes) -> NDArray[np.bool_]:
        """A mask over ``keys``: which are in here."""
        found = self._table.find(keys)[1]
        return found | self._late.find(keys)[1] if self._late.keys.size else found

    def record(self, batch: Batch) -> None:
        """Notes records as sent; a later one of the same session replaces the earlier."""
        if not len(batch):
            return
        keys, last = _last_of_each(batch.keys())
        identities, prints = batch.identities()[last], batch.prints()[last]
        for table in (self._table, self._late):
            at, known = table.find(keys)
            if known.any():
                table.write(at[known], identities[known], prints[known])
                new = ~known
                keys, identities, prints = keys[new], identities[new], prints[new]
        if keys.size:
            self._late.insert(keys, identities, prints)
            if self._late.keys.size > max(_LATE_ROWS, self._table.keys.size // _LATE_SHARE):
                self._whole()

    def forget(self, keys: Hashes) -> None:
        """Takes sessions out: deleted on the other side, or refused there."""
        table = self._whole()
        at, known = table.find(np.unique(keys))
        if known.any():
            stay = np.ones(table.keys.size, dtype=np.bool_)
            stay[at[known]] = False
            table.keys, table.identities, table.prints = (
                table.keys[stay],
                table.identities[stay],
                table.prints[stay],
            )

    def compare(self, batch: Batch, *, whole: bool = True) -> Difference:
        """Compares a dump with the ledger; pass ``whole=False`` if it is only a part of the zone."""
        keys = batch.keys()
        table = self._whole()
        at, known = table.find(keys)
        safe = np.where(known, at, 0)
        if table.keys.size:
            same = known & (table.identities[safe] == batch.identities())
            equal = same & (table.prints[safe] == batch.prints())
        else:
            same = equal = np.zeros(keys.size, dtype=np.bool_)
        vanished = np.empty(0, dtype=np.uint64)
        if whole:
            here = np.zeros(table.keys.size, dtype=np.bool_)
            here[at[known]] = True
            vanished = table.keys[~here]
        return Difference(batch.pick(~known), batch.pick(same & ~equal), batch.pick(known & ~same), vanished)

    def _whole(self) -> _Table:
        late = self._late
        if late.keys.size:
            self._late = _Table()
            self._table.insert(late.keys, late.identities, late.prints)
        return self._table


def _last_of_each(keys: Hashes) -> tuple[Hashes, NDArray[np.intp]]:
    """Distinct keys, ascending, and where each stands last."""
    distinct, first_from_end = np.unique(keys[::-1], return_index=True)
    return distinct, keys.size - 1 - first_from_end
