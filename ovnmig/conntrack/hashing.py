"""64-bit hashes over the first columns of a value table, for keys, identities and fingerprints.

Keys are compared between agents, so the hash depends on bytes only: not on the process, the machine
or its byte order. With 64 bits a million entries collide with a chance of about 3 in 10^8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_FINAL: Final = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT: Final = np.uint64(29)
_FINAL_SHIFT: Final = np.uint64(32)


def seed_of(data: bytes) -> int:
    """The start value for tables of one kind, from the bytes that describe the kind."""
    return int.from_bytes(blake2b(data, digest_size=8, person=b"ovnmig-ct").digest(), "little")


def to_wire(keys: Hashes) -> bytes:
    """Keys as they travel: 8 bytes each, little-endian."""
    return keys.astype("<u8").tobytes()


def from_wire(data: bytes) -> Hashes:
    """Keys that ``to_wire`` wrote. Raises ValueError when the bytes end inside one."""
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def joined(parts: Sequence[Hashes]) -> Hashes:
    """One array of several."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def among(keys: Hashes, some: Iterable[int] | Hashes) -> NDArray[np.bool_]:
    """A mask over ``keys``: which are among ``some``."""
    wanted = some if isinstance(some, np.ndarray) else np.fromiter(some, dtype=np.uint64)
    return np.isin(keys, wanted)


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
