"""Records: entries without a zone, as tables of values, and their form on the wire between agents.

A Group is the entries of one Shape; a Batch is a list of Groups. The wire form of a Batch is

    u8 version (1), u8 0, u16 groups, then per group:
    u8 length of the spec, the spec (``Spec.encode``), u32 rows, u16 columns, rows * columns * 4 bytes

in network byte order; every word of a table is an image of memory and travels as it is. No attribute
number, length or zone ever comes from the peer: the receiver derives the message from the spec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack import hashing
from ovnmig.conntrack.hashing import Hashes
from ovnmig.conntrack.messages import IPPROTO_TCP, SCTP_STATE_MAX, TCP_WSCALE_MAX, TcpState
from ovnmig.conntrack.program import Words
from ovnmig.conntrack.shape import Shape, shape_of
from ovnmig.conntrack.spec import Spec

VERSION: Final = 1
MAX_ROWS: Final = 1 << 16
MAX_GROUPS: Final = 4096
_HEAD = struct.Struct("!BBH")
_TABLE = struct.Struct("!IH")


class BadRecords(ValueError):
    """Bytes that are not a Batch, or a Batch holding what no entry can have. Nothing was applied."""


@dataclass(frozen=True, slots=True)
class Group:
    """Entries of one shape. ``values`` has shape ``(entries, shape.width)``.

    ``order`` is each entry's place in what it was read from (messages of a chunk) and ``ids`` the
    kernel's id of it, both empty when not known. Neither travels.
    """

    shape: Shape
    values: Words
    order: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    ids: Words = field(default_factory=lambda: np.empty(0, dtype=np.uint32))

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def keys(self) -> Hashes:
        """Which session: original tuple."""
        return hashing.rows(self.values, self.shape.key_columns, self.shape.key_seed)

    def identities(self) -> Hashes:
        """Which session and how it is translated: original tuple, new addresses and ports."""
        return hashing.rows(self.values, self.shape.identity_columns, self.shape.identity_seed)

    def prints(self) -> Hashes:
        """Everything but the timeout, which changes by itself."""
        return hashing.rows(self.values, self.shape.width - 1, self.shape.print_seed)

    def pick(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Group:
        """The entries a mask or an index array names."""
        order = self.order[which] if self.order.size else self.order
        ids = self.ids[which] if self.ids.size else self.ids
        return Group(self.shape, self.values[which], order, ids)

    def timeouts_s(self) -> NDArray[np.uint32]:
        """Remaining seconds per entry."""
        return self.values[:, -1].copy().view(">u4").astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries of any shapes. Iterating gives the groups; ``len`` is the number of entries."""

    groups: tuple[Group, ...] = ()

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def keys(self) -> Hashes:
        """Keys of all entries, in the order of the groups."""
        return hashing.joined([group.keys() for group in self.groups])

    def prints(self) -> Hashes:
        """Fingerprints of all entries, in the order of the groups."""
        return hashing.joined([group.prints() for group in self.groups])

    def identities(self) -> Hashes:
        """Identities of all entries, in the order of the groups."""
        return hashing.joined([group.identities() for group in self.groups])

    def pick(self, which: NDArray[np.bool_]) -> Batch:
        """The entries a mask over all of them (in group order) selects."""
        out, start = [], 0
        for group in self.groups:
            mask = which[start : start + len(group)]
            start += len(group)
            if mask.all():
                out.append(group)
            elif mask.any():
                out.append(group.pick(mask))
        return Batch(tuple(out))

    def masters_first(self) -> tuple[Batch, Batch]:
        """Entries without a master, and those that need one to be there before them."""
        own = tuple(group for group in self.groups if group.shape.spec.master is None)
        children = tuple(group for group in self.groups if group.shape.spec.master is not None)
        return Batch(own), Batch(children)

    def split(self, rows: int = MAX_ROWS) -> Iterator[Batch]:
        """The same entries as batches of at most ``rows``."""
        pending: list[Group] = []
        room = rows
        for group in self.groups:
            start = 0
            while start < len(group):
                part = slice(start, start + min(room, len(group) - start))
                pending.append(Group(group.shape, group.values[part]))
                room -= part.stop - part.start
                start = part.stop
                if not room:
                    yield Batch(tuple(pending))
                    pending, room = [], rows
        if pending:
            yield Batch(tuple(pending))


def merge(batches: Iterable[Batch]) -> Batch:
    """One Batch with one Group per shape out of many."""
    tables: dict[Spec, list[Group]] = {}
    for batch in batches:
        for group in batch:
            tables.setdefault(group.shape.spec, []).append(group)
    return Batch(
        tuple(
            groups[0]
            if len(groups) == 1
            else Group(groups[0].shape, np.concatenate([g.values for g in groups]))
            for groups in tables.values()
        )
    )


def encode(batch: Batch) -> bytes:
    """The wire form; the Batch must not hold more than MAX_ROWS entries (see ``Batch.split``)."""
    if len(batch) > MAX_ROWS or len(batch.groups) > MAX_GROUPS:
        raise ValueError(f"a batch of {len(batch)} entries is above the limit of {MAX_ROWS}: split it")
    parts = [_HEAD.pack(VERSION, 0, len(batch.groups))]
    for group in batch:
        spec = group.shape.spec.encode()
        parts += (bytes((len(spec),)), spec, _TABLE.pack(*group.values.shape), group.values.tobytes())
    return b"".join(parts)


def decode(data: bytes | bytearray | memoryview) -> Batch:
    """Reads and checks a wire form. Raises BadRecords; never returns a part of a bad Batch."""
    view = memoryview(data)
    try:
        version, _, count = _HEAD.unpack_from(view)
    except struct.error:
        raise BadRecords("the batch is shorter than its header") from None
    if version != VERSION:
        raise BadRecords(f"batch version {version} is not {VERSION}")
    if count > MAX_GROUPS:
        raise BadRecords(f"{count} groups are above the limit of {MAX_GROUPS}")
    groups: list[Group] = []
    rows_left, offset = MAX_ROWS, _HEAD.size
    for _ in range(count):
        group, offset = _decode_group(view, offset, rows_left)
        rows_left -= len(group)
        groups.append(group)
    if offset != len(view):
        raise BadRecords(f"{len(view) - offset} bytes follow the last group")
    return Batch(tuple(groups))


def _decode_group(view: memoryview, offset: int, rows_left: int) -> tuple[Group, int]:
    try:
        spec_end = offset + 1 + view[offset]
        shape = shape_of(Spec.decode(bytes(view[offset + 1 : spec_end])))
        rows, columns = _TABLE.unpack_from(view, spec_end)
    except (IndexError, struct.error):
        raise BadRecords("the batch ends inside the head of a group") from None
    except ValueError as error:
        raise BadRecords(str(error)) from None
    if columns != shape.width:
        raise BadRecords(f"a table of {columns} columns does not fit a spec with {shape.width}")
    if rows > rows_left:
        raise BadRecords(f"the batch holds more than {MAX_ROWS} entries")
    start = spec_end + _TABLE.size
    end = start + rows * columns * 4
    if end > len(view):
        raise BadRecords("the batch ends inside a table")
    values = np.frombuffer(bytes(view[start:end]), dtype=np.uint32).reshape(rows, columns)
    group = Group(shape, values)
    check(group)
    return group, end


def check(group: Group) -> None:
    """Raises BadRecords when a value is not one that a transform can have made."""
    shape, values = group.shape, group.values
    if not (((values & shape.keep) | shape.force) == values).all():
        raise BadRecords("a value has bits that its attribute does not carry")
    if shape.spec.flow.proto == IPPROTO_TCP and len(group):
        for name, limit in (("state", TcpState.SYN_SENT2), ("wscale_orig", TCP_WSCALE_MAX)):
            _check_byte(group, name, int(limit))
        _check_byte(group, "wscale_reply", TCP_WSCALE_MAX)
    elif shape.spec.info and len(group):
        _check_byte(group, "state", SCTP_STATE_MAX)


def _check_byte(group: Group, name: str, limit: int) -> None:
    column = group.values[:, group.shape.at(name)].copy().view(np.uint8)[::4]
    if int(column.max()) > limit:
        raise BadRecords(f"{name} {int(column.max())} is above {limit}")
