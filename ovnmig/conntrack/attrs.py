"""ctnetlink attributes: numbers, packing, walking.

An attribute is ``u16 length, u16 type`` in host byte order, then the payload, padded to four bytes.
The two top bits of the type are flags (nested, network byte order).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

TYPE_MASK: Final = 0x3FFF
NESTED: Final = 0x8000

TUPLE_ORIG: Final = 1
TUPLE_REPLY: Final = 2
STATUS: Final = 3
PROTOINFO: Final = 4
HELP: Final = 5
NAT_SRC: Final = 6
TIMEOUT: Final = 7
MARK: Final = 8
ID: Final = 12
NAT_DST: Final = 13
TUPLE_MASTER: Final = 14
SEQ_ADJ_ORIG: Final = 15
SEQ_ADJ_REPLY: Final = 16
ZONE: Final = 18
LABELS: Final = 22
SYNPROXY: Final = 24

TUPLE_IP: Final = 1
TUPLE_PROTO: Final = 2
TUPLE_ZONE: Final = 3
IP_V4_SRC: Final = 1
IP_V4_DST: Final = 2
IP_V6_SRC: Final = 3
IP_V6_DST: Final = 4
PROTO_NUM: Final = 1
PROTO_SRC_PORT: Final = 2
PROTO_DST_PORT: Final = 3
PROTO_ICMP_ID: Final = 4
PROTO_ICMP_TYPE: Final = 5
PROTO_ICMP_CODE: Final = 6
PROTO_ICMPV6_ID: Final = 7
PROTO_ICMPV6_TYPE: Final = 8
PROTO_ICMPV6_CODE: Final = 9

PROTOINFO_TCP: Final = 1
PROTOINFO_DCCP: Final = 2
PROTOINFO_SCTP: Final = 3
TCP_STATE: Final = 1
TCP_WSCALE_ORIG: Final = 2
TCP_WSCALE_REPLY: Final = 3
TCP_FLAGS_ORIG: Final = 4
TCP_FLAGS_REPLY: Final = 5
SCTP_STATE: Final = 1
SCTP_VTAG_ORIG: Final = 2
SCTP_VTAG_REPLY: Final = 3

NAT_V4_MINIP: Final = 1
NAT_V4_MAXIP: Final = 2
NAT_PROTO: Final = 3
NAT_V6_MINIP: Final = 4
NAT_V6_MAXIP: Final = 5
PROTONAT_PORT_MIN: Final = 1
PROTONAT_PORT_MAX: Final = 2
HELP_NAME: Final = 1

Path = tuple[int, ...]
"""Attribute types from the outside in, e.g. ``(TUPLE_ORIG, TUPLE_IP, IP_V4_SRC)``."""

_LEAF: Final[Mapping[int, object]] = MappingProxyType({})
_TUPLE: Final = {TUPLE_IP: _LEAF, TUPLE_PROTO: _LEAF}
NESTING: Final[Mapping[int, object]] = MappingProxyType(
    {
        TUPLE_ORIG: _TUPLE,
        TUPLE_REPLY: _TUPLE,
        TUPLE_MASTER: _TUPLE,
        PROTOINFO: {PROTOINFO_TCP: _LEAF, PROTOINFO_SCTP: _LEAF, PROTOINFO_DCCP: _LEAF},
        HELP: _LEAF,
        SEQ_ADJ_ORIG: _LEAF,
        SEQ_ADJ_REPLY: _LEAF,
        SYNPROXY: _LEAF,
    }
)
"""Which attributes hold others. Everything else is a leaf."""

_HEAD = struct.Struct("=HH")


class MalformedAttributes(ValueError):
    """A length that does not fit: the message is not ctnetlink or was cut."""


def align(length: int) -> int:
    """Rounds a byte count up to the four bytes netlink aligns to."""
    return (length + 3) & ~3


def attr(kind: int, payload: bytes) -> bytes:
    """One attribute, padded."""
    length = 4 + len(payload)
    return _HEAD.pack(length, kind) + payload + bytes(align(length) - length)


def nest(kind: int, *children: bytes) -> bytes:
    """A nested attribute around already packed children."""
    return attr(kind | NESTED, b"".join(children))


def leaves(
    data: bytes | memoryview, start: int, end: int, nesting: Mapping[int, object] = NESTING, path: Path = ()
) -> Iterator[tuple[Path, int, int]]:
    """Yields ``(path, payload offset, payload length)`` of every leaf between two byte offsets.

    Raises MalformedAttributes when a length runs over its parent.
    """
    offset = start
    while offset < end:
        if end - offset < 4:
            raise MalformedAttributes(f"{end - offset} stray bytes at offset {offset}")
        length, kind = _HEAD.unpack_from(data, offset)
        kind &= TYPE_MASK
        if length < 4 or offset + length > end:
            raise MalformedAttributes(f"attribute {kind} at offset {offset} has length {length}")
        inside = nesting.get(kind)
        if isinstance(inside, Mapping):
            yield from leaves(data, offset + 4, offset + length, inside, (*path, kind))
        else:
            yield (*path, kind), offset + 4, length - 4
        offset += align(length)


def index(data: bytes | memoryview, start: int, end: int) -> dict[Path, tuple[int, int]]:
    """All leaves as ``{path: (payload offset, payload length)}``; the last of a repeated one wins."""
    return {path: (offset, length) for path, offset, length in leaves(data, start, end)}
