"""Constants and headers of netlink, nfnetlink and ctnetlink.

Numbers come from the kernel's ``linux/netlink.h``, ``linux/netfilter/nfnetlink.h``,
``nfnetlink_conntrack.h`` and ``nf_conntrack_common.h``. Netlink headers are in host byte order,
attribute payloads of ctnetlink in network byte order.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

NETLINK_NETFILTER = 12
SOL_NETLINK = 270
NETLINK_ADD_MEMBERSHIP = 1
NETLINK_BROADCAST_ERROR = 4
NETLINK_NO_ENOBUFS = 5
NETLINK_CAP_ACK = 10
NETLINK_EXT_ACK = 11

NFNL_SUBSYS_CTNETLINK = 1
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLMSG_OVERRUN = 4

CT_NEW = NFNL_SUBSYS_CTNETLINK << 8 | 0
CT_GET = NFNL_SUBSYS_CTNETLINK << 8 | 1
CT_DELETE = NFNL_SUBSYS_CTNETLINK << 8 | 2
CT_GET_STATS = NFNL_SUBSYS_CTNETLINK << 8 | 5

NFNLGRP_CONNTRACK_NEW = 1
NFNLGRP_CONNTRACK_UPDATE = 2
NFNLGRP_CONNTRACK_DESTROY = 3

AF_INET = 2
AF_INET6 = 10

NLMSG_HEADER_LEN = 16
HEADER_LEN = 20
"""Bytes of the netlink header plus the nfnetlink header (family, version, resource id)."""


class MessageFlag(IntFlag):
    """Flags of a netlink header (the meaning of the high byte depends on the request)."""

    REQUEST = 0x1
    MULTI = 0x2
    ACK = 0x4
    DUMP_INTR = 0x10
    DUMP_FILTERED = 0x20
    EXCL = 0x200
    CREATE = 0x400
    DUMP = 0x300


class Status(IntFlag):
    """``enum ip_conntrack_status``."""

    EXPECTED = 1 << 0
    SEEN_REPLY = 1 << 1
    ASSURED = 1 << 2
    CONFIRMED = 1 << 3
    SRC_NAT = 1 << 4
    DST_NAT = 1 << 5
    SEQ_ADJUST = 1 << 6
    SRC_NAT_DONE = 1 << 7
    DST_NAT_DONE = 1 << 8
    DYING = 1 << 9
    FIXED_TIMEOUT = 1 << 10
    TEMPLATE = 1 << 11
    UNTRACKED = 1 << 12
    HELPER = 1 << 13
    OFFLOAD = 1 << 14
    HW_OFFLOAD = 1 << 15


class TcpState(IntEnum):
    """``enum tcp_conntrack``; the kernel refuses anything above ``SYN_SENT2`` with ERANGE."""

    NONE = 0
    SYN_SENT = 1
    SYN_RECV = 2
    ESTABLISHED = 3
    FIN_WAIT = 4
    CLOSE_WAIT = 5
    LAST_ACK = 6
    TIME_WAIT = 7
    CLOSE = 8
    SYN_SENT2 = 9


TCP_FLAG_BE_LIBERAL = 0x08
TCP_FLAGS_CARRIED = 0x0F
"""Window scale, SACK, close-init and liberal. MAXACK_SET (0x20) must never be carried: its bound
``td_maxack`` cannot be, and a later RST would be invalid for half of all sequence numbers."""
TCP_WSCALE_MAX = 14
SCTP_STATE_MAX = 8
"""HEARTBEAT_SENT; the kernel refuses more with ERANGE."""

IPPROTO_ICMP = 1
IPPROTO_TCP = 6
IPPROTO_UDP = 17
IPPROTO_DCCP = 33
IPPROTO_GRE = 47
IPPROTO_ICMPV6 = 58
IPPROTO_SCTP = 132
IPPROTO_UDPLITE = 136

PORT_PROTOCOLS = frozenset(
    {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_DCCP, IPPROTO_GRE, IPPROTO_SCTP, IPPROTO_UDPLITE}
)

_HEADER = struct.Struct("=IHHIIBBH")


def header(kind: int, flags: int, seq: int, family: int, payload_len: int) -> bytes:
    """The 20 header bytes of a message whose attributes take ``payload_len`` bytes."""
    return _HEADER.pack(HEADER_LEN + payload_len, kind, flags, seq, 0, family, 0, 0)


def message(kind: int, flags: int, seq: int, family: int, payload: bytes = b"") -> bytes:
    """A whole message: header and attributes."""
    return header(kind, flags, seq, family, len(payload)) + payload
