"""Transform: dumped messages to records.

A dump is not a create message: it lacks the NAT attributes, carries TCP flags with mask 0 and a reply
tuple that is already translated. The rules for every field are in docs/design/transfer.md; here they are
applied to thousands of messages at a time. Messages are sorted by length, recognised by Layout (made once
per form) and their values copied with numpy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ovnmig.conntrack.layout import Layout, layout_of
from ovnmig.conntrack.program import Words, word
from ovnmig.conntrack.records import Batch, Group

_LAYOUTS_PER_LENGTH = 256
_SECOND = word((1).to_bytes(4, "big"))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Raw messages side by side: the words of a buffer and where in it each message starts.

    ``offsets`` counts words, ascending. The buffer may be reused once the chunk was transformed.
    """

    words: Words
    offsets: NDArray[np.intp]

    def __len__(self) -> int:
        return int(self.offsets.size)

    def message(self, number: int) -> bytes:
        """One whole message, header included."""
        start = int(self.offsets[number])
        return self.words[start : start + int(self.words[start]) // 4].tobytes()


@dataclass(slots=True)
class Read:
    """What a transform found: records by zone number, and what cannot move, counted by reason."""

    zones: dict[int, list[Group]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)

    def batch(self, zone: int) -> Batch:
        """The records of one zone."""
        return Batch(tuple(self.zones.get(zone, ())))


class Transformer:
    """Turns chunks into records; keeps the layouts it has met (bounded, they are some dozens)."""

    def __init__(self) -> None:
        self._layouts: dict[int, list[Layout]] = {}

    def read(self, chunk: Chunk, zones: frozenset[int] | None = None) -> Read:
        """The records of a chunk.

        ``zones`` names the zones wanted; entries of others, and of zone 0 always, are passed over
        without being counted. None takes every zone but 0. Raises MalformedAttributes when a
        message is not well-formed.
        """
        out = Read()
        if not len(chunk):
            return out
        lengths = chunk.words[chunk.offsets] >> 2
        first = int(lengths[0])
        if (lengths == first).all():
            order = np.arange(lengths.size)
            self._read_rows(_rows(chunk.words, chunk.offsets, first), order, zones, out)
            return out
        for length in np.unique(lengths).tolist():
            order = np.flatnonzero(lengths == length)
            rows = _rows(chunk.words, chunk.offsets[order], length)
            self._read_rows(rows, order, zones, out)
        return out

    def _read_rows(
        self, rows: Words, order: NDArray[np.intp], zones: frozenset[int] | None, out: Read
    ) -> None:
        known = self._layouts.setdefault(rows.shape[1], [])
        for position, layout in enumerate(known):
            found = layout.matches(rows)
            if found.all():
                if position:
                    known.insert(0, known.pop(position))
                _collect(layout, rows, order, zones, out)
                return
            if found.any():
                _collect(layout, rows[found], order[found], zones, out)
                rows, order = rows[~found], order[~found]
        while rows.shape[0]:
            layout = layout_of(rows[0].tobytes())
            if len(known) >= _LAYOUTS_PER_LENGTH:
                known.pop()
            known.insert(0, layout)
            found = layout.matches(rows)
            _collect(layout, rows[found], order[found], zones, out)
            rows, order = rows[~found], order[~found]


def _rows(words: Words, offsets: NDArray[np.intp], length: int) -> Words:
    """Messages of one length as a matrix: a view where they lie side by side, else a copy."""
    start, count = int(offsets[0]), offsets.size
    if int(offsets[-1]) - start == (count - 1) * length:
        return words[start : start + count * length].reshape(count, length)
    windows = as_strided(words, (words.size - length + 1, length), (4, 4), writeable=False)
    return windows[offsets]


def _collect(
    layout: Layout, rows: Words, order: NDArray[np.intp], zones: frozenset[int] | None, out: Read
) -> None:
    if layout.zone_word < 0:
        return
    column = rows[:, layout.zone_word]
    present = [int(column[0])] if (column == column[0]).all() else np.unique(column).tolist()
    for value in present:
        zone = int.from_bytes(np.array([value], dtype=np.uint32).tobytes()[:2], "big")
        if zone == 0 or (zones is not None and zone not in zones):
            continue
        if len(present) == 1:
            some, places = rows, order
        else:
            chosen = column == value
            some, places = rows[chosen], order[chosen]
        if layout.shape is None:
            out.skipped[layout.reason] += int(some.shape[0])
            continue
        values = layout.read(some)
        timeout = values[:, -1]
        timeout[timeout == 0] = _SECOND
        ids = some[:, layout.id_word] if layout.id_word >= 0 else np.empty(0, dtype=np.uint32)
        out.zones.setdefault(zone, []).append(Group(layout.shape, values, places, ids.copy()))
