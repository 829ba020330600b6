"""Programs: build many netlink messages of one kind at once from a table of values.

A Program is a message whose words are constants or taken from a column of the value table:
``word = (value & keep) | force``. numpy does that for all rows at once, so no attribute is looked at per
entry. All words are images of memory, network byte order inside, so the code is the same on every machine.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack import attrs
from ovnmig.conntrack.messages import message

Words = NDArray[np.uint32]

KEEP_ALL: Final = b"\xff\xff\xff\xff"
KEEP_2: Final = b"\xff\xff\x00\x00"
KEEP_1: Final = b"\xff\x00\x00\x00"
FORCE_NONE: Final = bytes(4)

_ATTR = struct.Struct("=HH")
_ZONE_WORD = 6
"""Every message starts with 20 header bytes, then the zone attribute: its value is word 6."""


def word(data: bytes) -> int:
    """Four bytes as the number numpy sees when it looks at them as one uint32."""
    return int.from_bytes(data, "little" if np.little_endian else "big")


def keep_for(length: int) -> bytes:
    """The mask of a word that holds a payload of 1, 2 or 4 bytes and padding."""
    return {1: KEEP_1, 2: KEEP_2, 4: KEEP_ALL}[length]


@dataclass(frozen=True, slots=True)
class Program:
    """For each word of the message: a column of the value table, what to keep of it, what to force.

    A constant word keeps nothing. Taking all words in one go is faster than filling holes.
    """

    source: NDArray[np.intp]
    keep: Words
    force: Words

    @property
    def size(self) -> int:
        """Bytes of one message."""
        return self.source.size * 4

    def build(self, values: Words, zone: int, flags: int, first_seq: int) -> Words:
        """One message per row of ``values``: shape ``(rows, size // 4)``, sequence numbers ascending."""
        # "clip" spares numpy a second buffer; no column number is out of range.
        out = np.take(values, self.source, axis=1, mode="clip")
        out &= self.keep
        out |= self.force
        out[:, 1] |= np.uint32(word(_ATTR.pack(0, flags)))
        out[:, 2] = np.arange(first_seq, first_seq + values.shape[0], dtype=np.uint32)
        out[:, _ZONE_WORD] = word(zone.to_bytes(2, "big") + b"\0\0")
        return out


class Assembler:
    """Writes a Program word by word. Column numbers refer to the value table."""

    def __init__(self) -> None:
        self._words: list[bytes] = []
        self._fills: list[tuple[int, int, bytes, bytes]] = []
        self.constant(attrs.ZONE, bytes(2))

    def begin(self, kind: int) -> int:
        """Opens a nested attribute; give the result to ``end``."""
        self._words.append(_ATTR.pack(0, kind | attrs.NESTED))
        return len(self._words) - 1

    def end(self, start: int) -> None:
        """Closes a nested attribute and writes its length."""
        kind = _ATTR.unpack(self._words[start])[1]
        self._words[start] = _ATTR.pack(4 * (len(self._words) - start), kind)

    def constant(self, kind: int, payload: bytes) -> None:
        """An attribute that is the same in every message."""
        packed = attrs.attr(kind, payload)
        self._words.extend(packed[i : i + 4] for i in range(0, len(packed), 4))

    def value(
        self, kind: int, length: int, columns: Sequence[int], keep: bytes = b"", force: bytes = FORCE_NONE
    ) -> None:
        """An attribute of ``length`` bytes whose words are the given columns."""
        self._words.append(_ATTR.pack(4 + length, kind))
        for column in columns:
            self._fills.append((len(self._words), column, keep or keep_for(min(length, 4)), force))
            self._words.append(force)

    def finish(self, kind: int, family: int) -> Program:
        """The Program for message type ``kind``; flags and sequence are set when it is built."""
        whole = message(kind, 0, 0, family, b"".join(self._words))
        force = np.frombuffer(whole, dtype=np.uint32).copy()
        keep = np.zeros_like(force)
        source = np.zeros(force.size, dtype=np.intp)
        for position, column, kept, forced in self._fills:
            source[5 + position] = column
            keep[5 + position] = word(kept)
            force[5 + position] = word(forced)
        return Program(source, keep, force)
