"""Entry: one record or message written out for people. Slow; for reports and tests only."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

import numpy as np

from ovnmig.conntrack.layout import layout_of
from ovnmig.conntrack.messages import IPPROTO_TCP, Status, TcpState
from ovnmig.conntrack.records import Group
from ovnmig.conntrack.shape import Shape
from ovnmig.conntrack.spec import L4

Address = IPv4Address | IPv6Address

_NAMES = {1: "icmp", 6: "tcp", 17: "udp", 33: "dccp", 47: "gre", 58: "icmpv6", 132: "sctp", 136: "udplite"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One session. Ports are None where the protocol has none; for ICMP both are the id.

    ``nat_src`` is what the outside sees as source, ``nat_dst`` where the original destination is sent.
    """

    proto: str
    src: Address
    dst: Address
    sport: int | None
    dport: int | None
    nat_src: Address | None
    nat_src_port: int | None
    nat_dst: Address | None
    nat_dst_port: int | None
    status: Status
    state: str
    mark: int
    labels: bytes
    helper: str
    timeout_s: int

    def __str__(self) -> str:
        """``tcp 10.1.0.5:40000 -> 172.16.1.50:80 via 172.16.1.100:1024 ESTABLISHED``."""
        text = f"{self.proto} {_point(self.src, self.sport)} -> {_point(self.dst, self.dport)}"
        if self.nat_dst is not None:
            text += f" to {_point(self.nat_dst, self.nat_dst_port)}"
        if self.nat_src is not None:
            text += f" via {_point(self.nat_src, self.nat_src_port)}"
        return f"{text} {self.state}".rstrip()


def describe(group: Group, row: int) -> Entry:
    """The entry in one row of a group."""
    return _entry(group.shape, [value.tobytes() for value in group.values[row]])


def entries(group: Group) -> list[Entry]:
    """All entries of a group."""
    return [describe(group, row) for row in range(len(group))]


def describe_message(raw: bytes) -> Entry | None:
    """The entry in a kernel message; None where it cannot be a record."""
    layout = layout_of(raw)
    if layout.shape is None:
        return None
    values = layout.read(np.frombuffer(raw, dtype=np.uint32).reshape(1, -1))
    return _entry(layout.shape, [value.tobytes() for value in values[0]])


def _entry(shape: Shape, words: list[bytes]) -> Entry:
    def address(name: str) -> Address | None:
        if not (shape.has(name) or shape.has(f"{name}0")):
            return None
        return ip_address(b"".join(words[column] for column in shape.span(name)))

    def number(name: str, length: int) -> int | None:
        return int.from_bytes(words[shape.at(name)][:length], "big") if shape.has(name) else None

    spec = shape.spec
    ports = spec.flow.l4 is L4.PORTS
    source, target = address("orig_src"), address("orig_dst")
    if source is None or target is None:
        raise AssertionError("every shape has the addresses of its original tuple")
    state = number("state", 1)
    label = b"".join(words[column] for column in shape.span("label")) if spec.labels else b""
    return Entry(
        _NAMES.get(spec.flow.proto, f"proto-{spec.flow.proto}"),
        source,
        target,
        number("orig_sport" if ports else "orig_id", 2),
        number("orig_dport" if ports else "orig_id", 2),
        # Written out for every entry with DST_NAT, but a translation only where the bit says so.
        address("nat_src") if spec.nat & Status.SRC_NAT else None,
        number("nat_src_port", 2) if spec.nat & Status.SRC_NAT else None,
        address("nat_dst"),
        number("nat_dst_port", 2),
        Status(number("status", 4) or 0),
        "" if state is None else _state(spec.flow.proto, state),
        number("mark", 4) or 0,
        label,
        spec.helper,
        number("timeout", 4) or 0,
    )


def _state(proto: int, state: int) -> str:
    if proto != IPPROTO_TCP:
        return f"state-{state}"
    return TcpState(state).name if state <= max(TcpState) else f"state-{state}"


def _point(address: Address, port: int | None) -> str:
    if port is None:
        return str(address)
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
