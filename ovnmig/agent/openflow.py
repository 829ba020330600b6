"""The little of OpenFlow 1.3 to 1.5 that an agent needs, as bytes without I/O.

Packet-out in at a port, and flow monitors (OpenFlow 1.4 and newer; Open vSwitch 2.16 and newer): the switch
sends the flows that match now and then every change, so nothing has to be polled. Numbers are those of the
OpenFlow specification; the ``ct`` action is Open vSwitch's (``NXAST_CT``, ``NXAST_NAT``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final

VERSIONS: Final = (4, 5, 6)
"""OpenFlow 1.3, 1.4, 1.5 as the wire numbers them."""
MONITOR_VERSION: Final = 5
MAX_MESSAGE: Final = 65535

_HEADER = struct.Struct("!BBHI")
_NO_BUFFER = 0xFFFFFFFF
_ANY = 0xFFFFFFFF
_HELLO_FAILED = 0
_NO_VERSION = "the bridge speaks no OpenFlow version from 1.3 to 1.5: see its 'protocols' column"
_ALL_TABLES = 0xFF
_NORMAL = 0xFFFFFFFA
_FLOW_MONITOR = 16
_MORE = 1
_MONITOR_FLAGS = 1 | 2 | 4 | 8 | 16  # initial, added, removed, modified, with instructions
_APPLY_ACTIONS = 4
_EXPERIMENTER = 0xFFFF
_NICIRA = 0x2320
_NXAST_CT, _NXAST_NAT = 35, 36
_CT_HEAD_LENGTH = 24
_CT_COMMIT = 1
_OXM_IN_PORT, _OXM_ETH_TYPE, _OXM_IP_PROTO, _OXM_IPV4_DST, _OXM_IPV6_DST = 0, 5, 10, 12, 27
ETH_DST: Final = 3
ETH_SRC: Final = 4
_NXM_1, _NXM_TCP_FLAGS = 1, 34
_SYN, _ACK = 0x02, 0x10
_FLOW_ADD, _FLOW_DELETE = 0, 3
_WHOLE_COOKIE = (1 << 64) - 1


class OpenFlowError(Exception):
    """The switch refused something, or sent what cannot be OpenFlow."""


class Type(IntEnum):
    """Message types used here."""

    HELLO = 0
    ERROR = 1
    ECHO_REQUEST = 2
    ECHO_REPLY = 3
    PACKET_OUT = 13
    FLOW_MOD = 14
    MULTIPART_REQUEST = 18
    MULTIPART_REPLY = 19
    BARRIER_REQUEST = 20
    BARRIER_REPLY = 21


class FlowEvent(IntEnum):
    """What happened to a monitored flow."""

    INITIAL = 0
    ADDED = 1
    REMOVED = 2
    MODIFIED = 3


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it came."""

    version: int
    type: int
    xid: int
    body: bytes


@dataclass(frozen=True, slots=True)
class FlowUpdate:
    """One change of a monitored flow. ``key`` tells flows apart; ``destination`` is the address it matches.

    ``unsnat``: it translates packets back (``ct`` with ``nat``, without ``commit``).
    """

    event: FlowEvent
    key: tuple[int, int, bytes]
    destination: IPv4Address | IPv6Address | None
    unsnat: bool


@dataclass(frozen=True, slots=True)
class FlowMod:
    """A flow of table 0 that drops what it matches; ``delete``: it and its like go. ``hard_timeout_s`` 0: it
    stays."""

    cookie: int
    match: bytes
    priority: int = 0
    hard_timeout_s: int = 0
    delete: bool = False


def pack(version: int, kind: Type, xid: int, body: bytes = b"") -> bytes:
    """A whole message."""
    return _HEADER.pack(version, kind, _HEADER.size + len(body), xid) + body


def split(buffer: bytearray) -> Iterator[Message]:
    """Take the whole messages out of ``buffer``; what is left is the beginning of the next one."""
    while len(buffer) >= _HEADER.size:
        version, kind, length, xid = _HEADER.unpack_from(buffer)
        if length < _HEADER.size:
            raise OpenFlowError(f"a message claims to be {length} bytes long")
        if len(buffer) < length:
            return
        body = bytes(buffer[_HEADER.size : length])
        del buffer[:length]
        yield Message(version, kind, xid, body)


def hello(xid: int) -> bytes:
    """The first message on a connection, with the versions spoken here."""
    bitmap = sum(1 << version for version in VERSIONS)
    return pack(VERSIONS[-1], Type.HELLO, xid, struct.pack("!HHI", 1, 8, bitmap))


def agree(message: Message) -> int:
    """The version both speak, from the peer's HELLO. Raises OpenFlowError when there is none."""
    theirs = set(range(1, message.version + 1))
    body, offset = message.body, 0
    while offset + 4 <= len(body):
        kind, length = struct.unpack_from("!HH", body, offset)
        if kind == 1 and length >= 8 and offset + 8 <= len(body):
            (bitmap,) = struct.unpack_from("!I", body, offset + 4)
            theirs = {version for version in range(32) if bitmap >> version & 1}
        offset += max((length + 7) // 8 * 8, 8)
    common = theirs & set(VERSIONS)
    if not common:
        raise OpenFlowError(
            "the bridge speaks no OpenFlow version from 1.3 to 1.5: see its 'protocols' column"
        )
    return max(common)


def packet_out(version: int, xid: int, in_port: int, frame: bytes) -> bytes:
    """Let the switch treat ``frame`` as if it came in at ``in_port``: NORMAL forwarding, with learning."""
    actions = struct.pack("!HHIH6x", 0, 16, _NORMAL, 0)
    if version >= 6:
        head = struct.pack("!IH2x", _NO_BUFFER, len(actions)) + _match(
            [(_OXM_IN_PORT, struct.pack("!I", in_port))]
        )
    else:
        head = struct.pack("!IIH6x", _NO_BUFFER, in_port, len(actions))
    return pack(version, Type.PACKET_OUT, xid, head + actions + frame)


def flow_mod(version: int, xid: int, change: FlowMod) -> bytes:
    """Add a flow that drops what it matches, or delete all that have its cookie and match no less."""
    command = _FLOW_DELETE if change.delete else _FLOW_ADD
    table = _ALL_TABLES if change.delete else 0
    mask = _WHOLE_COOKIE if change.delete else 0
    times = (0, change.hard_timeout_s, change.priority)
    head = struct.pack("!QQBBHHH", change.cookie, mask, table, command, *times)
    head += struct.pack("!IIIHH", _NO_BUFFER, _ANY, _ANY, 0, 0)
    return pack(version, Type.FLOW_MOD, xid, head + change.match)


def tcp_openings(eth_field: int, mac: bytes, ipv6: bool) -> bytes:
    """The match of TCP packets with SYN and without ACK from (ETH_SRC) or to (ETH_DST) a MAC address."""
    flags = struct.pack("!HBB", _NXM_1, _NXM_TCP_FLAGS << 1 | 1, 4) + struct.pack("!HH", _SYN, _SYN | _ACK)
    eth_type = b"\x86\xdd" if ipv6 else b"\x08\x00"
    fields = [(eth_field, mac), (_OXM_ETH_TYPE, eth_type), (_OXM_IP_PROTO, b"\x06")]
    return _match(fields, flags)


def monitor_destination(version: int, xid: int, monitor_id: int, address: IPv4Address | IPv6Address) -> bytes:
    """Ask for the flows, now and later, that match exactly this destination address (and maybe more)."""
    if version < MONITOR_VERSION:
        raise OpenFlowError("flow monitors need OpenFlow 1.4: see the bridge's 'protocols' column")
    if isinstance(address, IPv4Address):
        fields = [(_OXM_ETH_TYPE, b"\x08\x00"), (_OXM_IPV4_DST, address.packed)]
    else:
        fields = [(_OXM_ETH_TYPE, b"\x86\xdd"), (_OXM_IPV6_DST, address.packed)]
    request = struct.pack("!IIIHBB", monitor_id, _ANY, _ANY, _MONITOR_FLAGS, _ALL_TABLES, 0) + _match(fields)
    return pack(version, Type.MULTIPART_REQUEST, xid, struct.pack("!HH4x", _FLOW_MONITOR, 0) + request)


def flow_updates(message: Message) -> list[FlowUpdate]:
    """The changes in a flow monitor's reply; empty for another reply. Raises OpenFlowError when malformed."""
    body = message.body
    try:
        (kind,) = struct.unpack_from("!H", body)
        return list(_updates(body[8:])) if kind == _FLOW_MONITOR else []
    except struct.error as error:
        raise OpenFlowError(f"a flow monitor reply is cut short: {error}") from None


def error_text(message: Message) -> str:
    """The switch's refusal in numbers, which the OpenFlow specification lists."""
    kind, code = struct.unpack_from("!HH", message.body) if len(message.body) >= 4 else (-1, -1)
    if kind == _HELLO_FAILED:
        return _NO_VERSION
    return f"the bridge refused a request: OpenFlow error type {kind} code {code}"


def _updates(data: bytes) -> Iterator[FlowUpdate]:
    offset = 0
    while offset + 8 <= len(data):
        length, event = struct.unpack_from("!HH", data, offset)
        if length < 8 or offset + length > len(data):
            raise OpenFlowError("a flow update is cut short")
        if event in (FlowEvent.INITIAL, FlowEvent.ADDED, FlowEvent.REMOVED, FlowEvent.MODIFIED):
            (table, priority) = struct.unpack_from("!B5xH", data, offset + 4)
            match_at = offset + 24
            (match_length,) = struct.unpack_from("!2xH", data, match_at)
            match = data[match_at : match_at + match_length]
            instructions = data[match_at + (match_length + 7) // 8 * 8 : offset + length]
            key = (table, priority, match)
            yield FlowUpdate(FlowEvent(event), key, _destination(match), _translates_back(instructions))
        offset += length


def _destination(match: bytes) -> IPv4Address | IPv6Address | None:
    offset = 4
    while offset + 4 <= len(match):
        kind, field, length = struct.unpack_from("!HBB", match, offset)
        value = match[offset + 4 : offset + 4 + length]
        if kind == 0x8000 and field == _OXM_IPV4_DST << 1 and len(value) == 4:
            return IPv4Address(value)
        if kind == 0x8000 and field == _OXM_IPV6_DST << 1 and len(value) == 16:
            return IPv6Address(value)
        offset += 4 + length
    return None


def _translates_back(instructions: bytes) -> bool:
    """Whether a ``ct`` action with ``nat`` and without ``commit`` is among them: OVN's unSNAT."""
    for kind, body in _walk(instructions):
        if kind == _APPLY_ACTIONS:
            for action, data in _walk(body[8:]):
                if _nicira(action, data) == _NXAST_CT and len(data) >= _CT_HEAD_LENGTH:
                    (flags,) = struct.unpack_from("!H", data, 10)
                    nested = _walk(data[_CT_HEAD_LENGTH:])
                    if not flags & _CT_COMMIT and any(_nicira(*inner) == _NXAST_NAT for inner in nested):
                        return True
    return False


def _nicira(action: int, data: bytes) -> int | None:
    """The subtype of a Nicira extension action, None for any other."""
    if action != _EXPERIMENTER or len(data) < 10:
        return None
    vendor, subtype = struct.unpack_from("!IH", data, 4)
    return int(subtype) if vendor == _NICIRA else None


def _walk(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + 4 <= len(data):
        kind, length = struct.unpack_from("!HH", data, offset)
        if length < 4:
            return
        yield kind, data[offset : offset + length]
        offset += (length + 7) // 8 * 8


def _match(fields: list[tuple[int, bytes]], more: bytes = b"") -> bytes:
    oxm = b"".join(struct.pack("!HBB", 0x8000, number << 1, len(value)) + value for number, value in fields)
    oxm += more
    length = 4 + len(oxm)
    return struct.pack("!HH", 1, length) + oxm + bytes(-length % 8)
