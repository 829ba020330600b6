"""Spec: what all entries of one kind have in common, small enough to be sent over the wire.

Two entries have the same Spec when their create messages differ in values only, never in which
attributes are there. A Spec holds no address, port, mark or zone. Everything the receiver writes into
the kernel besides plain values is derived from it, so a peer can name a kind of entry but never an
attribute of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ovnmig.conntrack.messages import (
    AF_INET,
    AF_INET6,
    IPPROTO_ICMP,
    IPPROTO_ICMPV6,
    IPPROTO_SCTP,
    IPPROTO_TCP,
    PORT_PROTOCOLS,
    Status,
)

NO_NAT: Final = Status(0)
HELPER_NAME_MAX: Final = 15
"""``NF_CT_HELPER_NAME_LEN`` minus the closing zero."""

_ICMP_INVERSE: Final = {8: 0, 0: 8, 13: 14, 14: 13, 15: 16, 16: 15, 17: 18, 18: 17}
_ICMPV6_INVERSE: Final = {128: 129, 129: 128, 139: 140, 140: 139}

_HEAD: Final = struct.Struct("!BBBBBBBB")
_FLAG_INFO = 1
_FLAG_LABELS = 2
_FLAG_SEQADJ = 4
_FLAG_SYNPROXY = 8
_FLAG_MASTER = 16


class BadSpec(ValueError):
    """A Spec that no kernel entry can have; the message says which field is wrong."""


class L4(IntEnum):
    """What the transport part of a tuple holds."""

    NONE = 0
    PORTS = 1
    ICMP = 2
    ICMPV6 = 3


@dataclass(frozen=True, slots=True)
class Flow:
    """The constant part of a tuple: protocol number, its form and, for ICMP, type and code."""

    proto: int
    l4: L4
    icmp_type: int = 0
    icmp_code: int = 0

    def check(self) -> None:
        """Raises BadSpec unless protocol, form and ICMP type belong together."""
        if not 0 <= self.proto <= 255:
            raise BadSpec(f"protocol {self.proto} is not 0..255")
        if self.l4 != form_of(self.proto):
            raise BadSpec(f"protocol {self.proto} does not have tuples of the form {self.l4.name}")
        if self.l4 in (L4.ICMP, L4.ICMPV6):
            self.inverse_icmp_type()
            if not 0 <= self.icmp_code <= 255:
                raise BadSpec(f"ICMP code {self.icmp_code} is not 0..255")
        elif self.icmp_type or self.icmp_code:
            raise BadSpec(f"protocol {self.proto} has no ICMP type")

    def inverse_icmp_type(self) -> int:
        """The type of the answer (``invmap`` of the kernel's icmp trackers); BadSpec if it has none."""
        table = _ICMP_INVERSE if self.l4 is L4.ICMP else _ICMPV6_INVERSE
        try:
            return table[self.icmp_type]
        except KeyError:
            raise BadSpec(f"ICMP type {self.icmp_type} has no answer and so no session") from None


@dataclass(frozen=True, slots=True)
class Spec:
    """The kind of an entry. ``nat`` holds the bits SRC_NAT and DST_NAT of its status."""

    family: int
    flow: Flow
    nat: Status = NO_NAT
    info: bool = False
    labels: bool = False
    seqadj: bool = False
    synproxy: bool = False
    helper: str = ""
    master: Flow | None = None

    def check(self) -> None:
        """Raises BadSpec when the combination cannot be an entry."""
        if self.family not in (AF_INET, AF_INET6):
            raise BadSpec(f"address family {self.family} is neither IPv4 nor IPv6")
        self.flow.check()
        if self.master is not None:
            self.master.check()
        if self.nat & ~(Status.SRC_NAT | Status.DST_NAT):
            raise BadSpec(f"NAT bits {self.nat:#x} hold more than source and destination")
        if self.info != (self.flow.proto == IPPROTO_TCP) and self.flow.proto != IPPROTO_SCTP:
            raise BadSpec(f"protocol {self.flow.proto} and protocol state do not go together")
        name = self.helper
        if (
            len(name) > HELPER_NAME_MAX
            or not name.isascii()
            or not all(c.isalnum() or c in "._-" for c in name)
        ):
            raise BadSpec(f"helper name {name!r} is not one of the kernel's")

    def encode(self) -> bytes:
        """The wire form: 8 bytes, the helper's name, 4 bytes of the master if there is one."""
        flags = (
            _FLAG_INFO * self.info
            | _FLAG_LABELS * self.labels
            | _FLAG_SEQADJ * self.seqadj
            | _FLAG_SYNPROXY * self.synproxy
            | _FLAG_MASTER * (self.master is not None)
        )
        flow, helper = self.flow, self.helper.encode()
        head = _HEAD.pack(
            self.family, flow.proto, flow.l4, flow.icmp_type, flow.icmp_code, self.nat, flags, len(helper)
        )
        master = self.master
        tail = b"" if master is None else bytes((master.proto, master.l4, master.icmp_type, master.icmp_code))
        return head + helper + tail

    @classmethod
    def decode(cls, data: bytes) -> Spec:
        """Reads the wire form; raises BadSpec on anything that is not exactly one valid Spec."""
        try:
            family, proto, l4, icmp_type, icmp_code, nat, flags, length = _HEAD.unpack_from(data)
        except struct.error:
            raise BadSpec(f"{len(data)} bytes are too short for a spec") from None
        tail = data[_HEAD.size + length :]
        if len(data) < _HEAD.size + length or len(tail) != (4 if flags & _FLAG_MASTER else 0) or flags > 31:
            raise BadSpec("length and flags of the spec contradict each other")
        try:
            spec = cls(
                family,
                Flow(proto, L4(l4), icmp_type, icmp_code),
                Status(nat),
                bool(flags & _FLAG_INFO),
                bool(flags & _FLAG_LABELS),
                bool(flags & _FLAG_SEQADJ),
                bool(flags & _FLAG_SYNPROXY),
                data[_HEAD.size : _HEAD.size + length].decode("ascii"),
                Flow(tail[0], L4(tail[1]), tail[2], tail[3]) if tail else None,
            )
        except ValueError as error:
            raise BadSpec(str(error)) from None
        spec.check()
        return spec


def form_of(proto: int) -> L4:
    """The tuple form the kernel uses for a protocol number (``nf_ct_l4proto_find``)."""
    if proto in PORT_PROTOCOLS:
        return L4.PORTS
    if proto == IPPROTO_ICMP:
        return L4.ICMP
    return L4.ICMPV6 if proto == IPPROTO_ICMPV6 else L4.NONE
