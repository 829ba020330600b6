"""Layout: where the values of one form of dumped message are.

The kernel writes the attributes of an entry in a fixed order, so messages of one form differ in payload
words only. A Layout is made once, by walking one message attribute by attribute; afterwards every other
message of that form is recognised by comparing masked words and read by copying words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack import attrs
from ovnmig.conntrack.attrs import Path
from ovnmig.conntrack.messages import (
    HEADER_LEN,
    IPPROTO_SCTP,
    IPPROTO_TCP,
    Status,
)
from ovnmig.conntrack.program import KEEP_1, Words, word
from ovnmig.conntrack.shape import Shape, shape_of
from ovnmig.conntrack.spec import L4, BadSpec, Flow, Spec, form_of

_NAT_BITS = Status.SRC_NAT | Status.DST_NAT
_ICMP_CONSTANTS = {
    attrs.PROTO_ICMP_TYPE,
    attrs.PROTO_ICMP_CODE,
    attrs.PROTO_ICMPV6_TYPE,
    attrs.PROTO_ICMPV6_CODE,
}
_TUPLES = (attrs.TUPLE_ORIG, attrs.TUPLE_REPLY, attrs.TUPLE_MASTER)
Index = dict[Path, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Layout:
    """How to recognise and read one form of message; ``shape`` is None for entries that cannot move."""

    mask: Words
    value: Words
    nonzero: NDArray[np.intp]
    zone_word: int
    """-1 when the form has no zone attribute: zone 0."""
    id_word: int
    """Where the kernel's id of the entry is; -1 without one."""
    shape: Shape | None
    reason: str
    """Why it cannot move, for the report; empty if it can."""
    source: NDArray[np.intp]
    keep: Words
    force: Words

    def matches(self, rows: Words) -> NDArray[np.bool_]:
        """Which rows are of this form."""
        wrong = rows & self.mask
        wrong ^= self.value
        found = np.ones(rows.shape[0], dtype=np.bool_)
        if wrong.any():
            found = ~np.bitwise_or.reduce(wrong, axis=1).astype(np.bool_)
        if self.nonzero.size:
            found &= rows[:, self.nonzero].any(axis=1)
        return found

    def read(self, rows: Words) -> Words:
        """The value table of rows of this form."""
        values = np.take(rows, self.source, axis=1, mode="clip")
        values &= self.keep
        values |= self.force
        return values


def layout_of(raw: bytes) -> Layout:
    """Walks one NEW, UPDATE or DESTROY message; raises MalformedAttributes when it is not well-formed."""
    index = attrs.index(raw, HEADER_LEN, len(raw))
    mask, nonzero = _mask(raw, index)
    rows = np.frombuffer(raw, dtype=np.uint32)
    zone = index.get((attrs.ZONE,))
    zone_word = zone[0] // 4 if zone else -1
    identifier = index.get((attrs.ID,))
    id_word = identifier[0] // 4 if identifier else -1
    shape: Shape | None = None
    reason = _obstacle(index)
    source, keep, force = [0], [0], [0]
    if not reason:
        try:
            shape = shape_of(_spec(raw, index))
            source, keep, force = _program(shape, index)
        except BadSpec as error:
            shape, reason = None, str(error)
    return Layout(
        mask,
        rows & mask,
        np.array(nonzero, dtype=np.intp),
        zone_word,
        id_word,
        shape,
        reason,
        np.array(source, dtype=np.intp),
        np.array(keep, dtype=np.uint32),
        np.array(force, dtype=np.uint32),
    )


def _mask(raw: bytes, index: Index) -> tuple[Words, list[int]]:
    """Which bits make the form, and the words of which at least one must not be zero."""
    mask = np.full(len(raw) // 4, 0xFFFFFFFF, dtype=np.uint32)
    mask[1:4] = 0
    mask[4] = word(KEEP_1)
    nonzero: list[int] = []
    for path, (offset, length) in index.items():
        words = slice(offset // 4, attrs.align(offset + length) // 4)
        if path[0] in _TUPLES and path[1] == attrs.TUPLE_PROTO:
            constant = path[2] == attrs.PROTO_NUM or path[2] in _ICMP_CONSTANTS
            mask[words] = word(KEEP_1) if constant else 0
        elif path == (attrs.STATUS,):
            mask[words] = word(int(_NAT_BITS).to_bytes(4, "big"))
        elif path[0] == attrs.SYNPROXY:
            if any(raw[o : o + n].strip(b"\0") for p, (o, n) in index.items() if p[0] == attrs.SYNPROXY):
                mask[words] = 0
                nonzero.append(offset // 4)
        elif path[:2] != (attrs.HELP, attrs.HELP_NAME):
            mask[words] = 0
    return mask, nonzero


def _obstacle(index: Index) -> str:
    if any(path[0] in _TUPLES and path[1] == attrs.TUPLE_ZONE for path in index):
        return "the entry has a zone in one direction only"
    if any(path[:2] == (attrs.PROTOINFO, attrs.PROTOINFO_DCCP) for path in index):
        return "DCCP state is not carried"
    if (attrs.TUPLE_ORIG, attrs.TUPLE_PROTO, attrs.PROTO_NUM) not in index:
        return "the message has no original tuple"
    if (attrs.LABELS,) in index and index[(attrs.LABELS,)][1] != 16:
        return "the label is not 128 bits long"
    return ""


def _spec(raw: bytes, index: Index) -> Spec:
    flow = _flow(raw, index, attrs.TUPLE_ORIG)
    has_master = (attrs.TUPLE_MASTER, attrs.TUPLE_PROTO, attrs.PROTO_NUM) in index
    status = int.from_bytes(_payload(raw, index, (attrs.STATUS,)), "big")
    sctp = (attrs.PROTOINFO, attrs.PROTOINFO_SCTP, attrs.SCTP_STATE)
    return Spec(
        raw[16],
        flow,
        Status(status) & _NAT_BITS,
        flow.proto == IPPROTO_TCP or (flow.proto == IPPROTO_SCTP and sctp in index),
        (attrs.LABELS,) in index,
        (attrs.SEQ_ADJ_ORIG, 1) in index and (attrs.SEQ_ADJ_REPLY, 1) in index,
        any(_payload(raw, index, (attrs.SYNPROXY, part)).strip(b"\0") for part in (1, 2, 3)),
        _payload(raw, index, (attrs.HELP, attrs.HELP_NAME)).split(b"\0")[0].decode("ascii", "replace"),
        _flow(raw, index, attrs.TUPLE_MASTER) if has_master else None,
    )


def _flow(raw: bytes, index: Index, kind: int) -> Flow:
    def number(path: Path) -> int:
        return (_payload(raw, index, path) or b"\0")[0]

    proto = number((kind, attrs.TUPLE_PROTO, attrs.PROTO_NUM))
    l4 = form_of(proto)
    if l4 is L4.ICMP:
        kinds = attrs.PROTO_ICMP_TYPE, attrs.PROTO_ICMP_CODE
    elif l4 is L4.ICMPV6:
        kinds = attrs.PROTO_ICMPV6_TYPE, attrs.PROTO_ICMPV6_CODE
    else:
        return Flow(proto, l4)
    return Flow(proto, l4, *(number((kind, attrs.TUPLE_PROTO, k)) for k in kinds))


def _payload(raw: bytes, index: Index, path: Path) -> bytes:
    offset, length = index.get(path, (0, 0))
    return raw[offset : offset + length]


def _program(shape: Shape, index: Index) -> tuple[list[int], list[int], list[int]]:
    source, keep, force = [], [], []
    for column in shape.columns:
        at = index.get(column.path)
        if at is not None:
            source.append((at[0] + column.skip) // 4)
            keep.append(word(column.keep))
            force.append(word(column.force))
        elif column.default is not None:
            source.append(0)
            keep.append(0)
            force.append(word(column.default))
        else:
            raise BadSpec(f"the message does not carry {column.name}")
    return source, keep, force
