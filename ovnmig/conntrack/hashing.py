"""64-bit hashes over the first columns of a value table, for keys, identities and fingerprints.

Keys are compared between agents, so the hash depends on bytes only: not on the process, the machine
or its byte order. With 64 bits a million entries collide with a chance of about 3 in 10^8.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_FINAL: Final = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT: Final = np.uint64(29)
_FINAL_SHIFT: Final = np.uint64(32)
_MANY: Final = 1 << 13


def seed_of(data: bytes) -> int:
    """The start value for tables of one kind, from the bytes that describe the kind."""
    return int.from_bytes(blake2b(data, digest_size=8, person=b"ovnmig-ct").digest(), "little")


def places(ascending: Hashes, wanted: Hashes) -> NDArray[np.intp]:
    """``np.searchsorted``. Many needles are sorted first: in order they do not miss the cache each time."""
    if wanted.size < _MANY:
        return np.searchsorted(ascending, wanted)
    order = np.argsort(wanted)
    out = np.empty(wanted.size, dtype=np.intp)
    out[order] = np.searchsorted(ascending, wanted[order])
    return out


def rows(values: NDArray[np.uint32], columns: int, seed: int) -> Hashes:
    """One hash per row over its first ``columns`` words."""
    table = values.view("<u4")
    out = np.full(values.shape[0], seed, dtype=np.uint64)
    for column in range(columns):
        out ^= table[:, column]
        out *= _MULTIPLIER
        out ^= out >> _SHIFT
    out *= _FINAL
    out ^= out >> _FINAL_SHIFT
    return out
