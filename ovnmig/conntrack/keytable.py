"""A hash table of 64-bit keys in arrays: thousands of keys are found or added in a few array operations.

Open addressing, linear probing, at most half full. Where a key stands depends on a random number of this
process, so that a peer that chooses its keys cannot make them collide. Columns belong to the rows: 64-bit
values, and one byte of marks.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack.hashing import Hashes

Places = NDArray[np.intp]
_FREE: Final = np.uint64(0)
_GONE: Final = np.uint64(1)
"""A row that was taken out; looking for a key goes on past it."""
_FIRST_KEY: Final = np.uint64(2)
_LEAST_BITS: Final = 10
_SMALL: Final = 1 << 18
"""A table below this many rows grows by more at a time: moving rows costs more than its memory."""
_SPREAD: Final = np.uint64(secrets.randbits(64) | 1)


class KeyTable:
    """Keys with ``columns`` 64-bit values each. ``len`` is the number of keys.

    The keys 0 and 1 stand for themselves only by way of 2 and 3; the chance that a hash is one of the four is
    one in 2^62. A place is good until the next ``add``.
    """

    def __init__(self, columns: int = 0) -> None:
        self._bits = _LEAST_BITS
        self._used = 0
        self._count = 0
        self._keys: Hashes = np.zeros(1 << self._bits, dtype=np.uint64)
        self.columns: list[Hashes] = [np.zeros(1 << self._bits, dtype=np.uint64) for _ in range(columns)]
        self.marks: NDArray[np.uint8] = np.zeros(1 << self._bits, dtype=np.uint8)

    def __len__(self) -> int:
        return self._count

    def taken(self) -> Places:
        """The places of all rows, in no order."""
        return np.flatnonzero(self._keys >= _FIRST_KEY)

    def keys_at(self, places: Places) -> Hashes:
        """The keys of rows."""
        return self._keys[places]

    def find(self, keys: Hashes) -> Places:
        """Where each key stands; -1 for one that is not in here."""
        wanted = _usable(keys)
        at = self._home(wanted)
        held = self._keys[at]
        out = np.where(held == wanted, at, -1)
        left = np.flatnonzero((held != wanted) & (held != _FREE))
        mask = self._keys.size - 1
        at = at[left]
        while left.size:
            at = (at + 1) & mask
            held = self._keys[at]
            hit = held == wanted[left]
            out[left[hit]] = at[hit]
            on = ~hit & (held != _FREE)
            left, at = left[on], at[on]
        return out

    def holds(self, keys: Hashes) -> NDArray[np.bool_]:
        """A mask over ``keys``: which are in here."""
        return self.find(keys) >= 0

    def add(self, keys: Hashes) -> Places:
        """Where each key stands, those that were not in here added with columns and mark 0."""
        return self._put(keys)[0]

    def add_new(self, keys: Hashes) -> NDArray[np.bool_]:
        """Adds keys; a mask of those that were not in here, of equal ones only one."""
        return self._put(keys)[1]

    def _put(self, keys: Hashes) -> tuple[Places, NDArray[np.bool_]]:
        self._make_room(keys.size)
        added = np.zeros(keys.size, dtype=np.bool_)
        wanted = _usable(keys)
        at = self._home(wanted)
        out = at.copy()
        left = np.arange(wanted.size)
        mask = self._keys.size - 1
        while left.size:
            own = wanted[left]
            held = self._keys[at]
            free = np.flatnonzero(held == _FREE)
            if free.size:
                # Several keys may want one place: the number written last says whose it is.
                places = at[free]
                numbers = np.arange(free.size, dtype=np.uint64)
                self._keys[places] = numbers
                first = self._keys[places] == numbers
                self._keys[places[first]] = own[free[first]]
                held = self._keys[at]
                added[left[free[first]]] = True
                new = int(first.sum())
                self._used += new
                self._count += new
            on = held != own
            done = ~on
            out[left[done]] = at[done]
            left, at = left[on], (at[on] + 1) & mask
        return out, added

    def remove(self, keys: Hashes) -> None:
        """Takes keys out; what is not in here is passed over."""
        found = self.find(keys)
        places = np.unique(found[found >= 0])
        if not places.size:
            return
        self._keys[places] = _GONE
        self.marks[places] = 0
        for column in self.columns:
            column[places] = 0
        self._count -= places.size

    def _home(self, keys: Hashes) -> Places:
        spread = keys * _SPREAD
        spread >>= np.uint64(64 - self._bits)
        return spread.astype(np.intp)

    def _make_room(self, more: int) -> None:
        if 2 * (self._used + more) <= self._keys.size:
            return
        rows = self.taken()
        bits = _LEAST_BITS
        wanted = rows.size + more
        while 1 << bits < (4 if wanted < _SMALL else 2) * wanted:
            bits += 1
        keys, columns, marks = self._keys[rows], self.columns, self.marks[rows]
        self._bits = bits
        self._used = self._count = 0
        self._keys = np.zeros(1 << bits, dtype=np.uint64)
        places = self.add(keys)
        self.marks = np.zeros(1 << bits, dtype=np.uint8)
        self.marks[places] = marks
        self.columns = []
        for old in columns:
            column = np.zeros(1 << bits, dtype=np.uint64)
            column[places] = old[rows]
            self.columns.append(column)


def _usable(keys: Hashes) -> Hashes:
    small = keys < _FIRST_KEY
    return np.where(small, keys + _FIRST_KEY, keys) if small.any() else keys
