"""Generated entries: messages as a kernel dumps them, written attribute by attribute."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from hypothesis import strategies as st

from ovnmig.conntrack import attrs as a
from ovnmig.conntrack import messages as m

ICMP_PAIRS = {1: [(8, 0), (13, 14), (15, 16), (17, 18)], 58: [(128, 129), (139, 140)]}
_BASE = {1: a.PROTO_ICMP_ID, 58: a.PROTO_ICMPV6_ID}


@dataclass(frozen=True)
class Side:
    """One tuple."""

    src: bytes
    dst: bytes
    proto: int
    sport: int = 0
    dport: int = 0
    icmp: tuple[int, int] = (0, 0)

    def attr(self, kind: int) -> bytes:
        """The tuple as an attribute."""
        v6 = len(self.src) == 16
        parts = [a.attr(a.PROTO_NUM, bytes((self.proto,)))]
        if self.proto in m.PORT_PROTOCOLS:
            parts += [a.attr(2, self.sport.to_bytes(2, "big")), a.attr(3, self.dport.to_bytes(2, "big"))]
        elif self.proto in _BASE:
            base = _BASE[self.proto]
            parts.append(a.attr(base, self.sport.to_bytes(2, "big")))
            parts += [a.attr(base + 1, bytes((self.icmp[0],))), a.attr(base + 2, bytes((self.icmp[1],)))]
        addresses = a.attr(3 if v6 else 1, self.src), a.attr(4 if v6 else 2, self.dst)
        return a.nest(kind, a.nest(a.TUPLE_IP, *addresses), a.nest(a.TUPLE_PROTO, *parts))


@dataclass(frozen=True)
class Dumped:
    """An entry and the message the kernel would dump for it."""

    zone: int
    status: int
    orig: Side
    reply: Side
    timeout_s: int | None
    tcp: tuple[int, int, int, int, int] | None
    sctp: tuple[int, int, int] | None
    mark: int
    labels: bytes
    helper: str
    master: Side | None

    def message(self) -> bytes:
        """In the order of the kernel's ``ctnetlink_fill_info``."""
        parts = [self.orig.attr(a.TUPLE_ORIG), self.reply.attr(a.TUPLE_REPLY)]
        if self.zone:
            parts.append(a.attr(a.ZONE, self.zone.to_bytes(2, "big")))
        parts.append(_word(a.STATUS, self.status))
        parts.append(_word(a.MARK, self.mark))
        parts += [_word(a.ID, 99), _word(11, 1)]
        if self.master is not None:
            parts.append(self.master.attr(a.TUPLE_MASTER))
        if self.labels:
            parts.append(a.attr(a.LABELS, self.labels))
        if self.helper:
            parts.append(a.nest(a.HELP, a.attr(a.HELP_NAME, self.helper.encode() + b"\0")))
        if self.timeout_s is not None:
            parts.append(_word(a.TIMEOUT, self.timeout_s))
            parts += self._info()
        family = m.AF_INET6 if len(self.orig.src) == 16 else m.AF_INET
        return m.message(m.CT_NEW, m.MessageFlag.MULTI, 7, family, b"".join(parts))

    def _info(self) -> list[bytes]:
        if self.tcp is not None:
            state, *scales, left, right = self.tcp
            inner = [a.attr(1, bytes((state,))), *(a.attr(2 + i, bytes((s,))) for i, s in enumerate(scales))]
            inner += [a.attr(4, bytes((left, 0))), a.attr(5, bytes((right, 0)))]
            return [a.nest(a.PROTOINFO, a.nest(a.PROTOINFO_TCP, *inner))]
        if self.sctp is not None:
            state, *tags = self.sctp
            inner = [a.attr(1, bytes((state,))), *(_word(2 + i, tag) for i, tag in enumerate(tags))]
            return [a.nest(a.PROTOINFO, a.nest(a.PROTOINFO_SCTP, *inner))]
        return []


def _word(kind: int, value: int) -> bytes:
    return a.attr(kind, value.to_bytes(4, "big"))


_PORT = st.integers(0, 0xFFFF)
_WORD = st.integers(0, 0xFFFFFFFF)
_PROTO = st.sampled_from([6, 17, 1, 58, 132, 47, 50, 136, 89])


@st.composite
def dumped(draw: st.DrawFn) -> Dumped:
    """Any entry that the engine carries, as a kernel could hold it."""
    v6 = draw(st.booleans())
    address = (
        st.builds(lambda i: IPv6Address(i).packed, st.integers(0, (1 << 128) - 1))
        if v6
        else st.builds(lambda i: IPv4Address(i).packed, _WORD)
    )
    proto = draw(_PROTO)
    sport = draw(_PORT) if proto in m.PORT_PROTOCOLS or proto in ICMP_PAIRS else 0
    dport = draw(_PORT) if proto in m.PORT_PROTOCOLS else 0
    pair = draw(st.sampled_from(ICMP_PAIRS[proto])) if proto in ICMP_PAIRS else (0, 0)
    if proto in ICMP_PAIRS and draw(st.booleans()):
        pair = (pair[1], pair[0])
    orig = Side(draw(address), draw(address), proto, sport, dport, (pair[0], 0))
    nat = draw(st.sampled_from([0, m.Status.SRC_NAT, m.Status.DST_NAT, m.Status.SRC_NAT | m.Status.DST_NAT]))
    reply_src = draw(address) if nat & m.Status.DST_NAT else orig.dst
    reply_dst = draw(address) if nat & m.Status.SRC_NAT else orig.src
    if proto in ICMP_PAIRS:
        number = draw(_PORT) if nat else sport
        reply = Side(reply_src, reply_dst, proto, number, 0, (pair[1], 0))
    else:
        reply_sport = draw(_PORT) if nat & m.Status.DST_NAT else dport
        reply_dport = draw(_PORT) if nat & m.Status.SRC_NAT else sport
        reply = Side(reply_src, reply_dst, proto, reply_sport, reply_dport)
    extra = draw(st.sampled_from([0, m.Status.SEEN_REPLY, m.Status.SEEN_REPLY | m.Status.ASSURED]))
    noise = draw(
        st.sampled_from([0, m.Status.EXPECTED, m.Status.DYING, m.Status.OFFLOAD, m.Status.SEQ_ADJUST])
    )
    byte = st.integers(0, 255)
    master = Side(draw(address), draw(address), 6, draw(_PORT), draw(_PORT)) if draw(st.booleans()) else None
    return Dumped(
        draw(st.integers(1, 0xFFFF)),
        int(m.Status.CONFIRMED | nat | extra | noise | ((nat << 3) & 0x180)),
        orig,
        reply,
        draw(st.none() | _WORD) if proto == 6 else draw(_WORD),
        (draw(st.integers(0, 9)), draw(st.integers(0, 14)), draw(st.integers(0, 14)), draw(byte), draw(byte))
        if proto == 6
        else None,
        (draw(st.integers(0, 8)), draw(_WORD), draw(_WORD)) if proto == 132 else None,
        draw(_WORD),
        draw(st.sampled_from([b"", bytes(16), bytes(range(16))])),
        draw(st.sampled_from(["", "ftp", "Q.931"])),
        master,
    )
