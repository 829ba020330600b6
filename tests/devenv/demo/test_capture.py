from __future__ import annotations

import struct
from ipaddress import ip_address
from pathlib import Path

import pytest

from devenv.demo.capture import ICMP, ICMPV6, TCP, UDP, parse_frame, read

ETHER = b"\x02" * 12


def tcp_header(source: int, target: int, seq: int = 5, ack: int = 6, flags: int = 4) -> bytes:
    return struct.pack(">HHIIBBHHH", source, target, seq, ack, 0x50, flags, 0, 0, 0)


def ipv4(source: str, target: str, protocol: int, body: bytes) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0)
    return head + ip_address(source).packed + ip_address(target).packed + body


def ipv6(source: str, target: str, protocol: int, body: bytes) -> bytes:
    return (
        struct.pack(">IHBB", 6 << 28, len(body), protocol, 64)
        + ip_address(source).packed
        + ip_address(target).packed
        + body
    )


def test_tcp_of_both_families_and_behind_a_vlan_tag_is_read() -> None:
    body = tcp_header(1000, 80)
    four = parse_frame(1.0, ETHER + b"\x08\x00" + ipv4("10.0.0.1", "10.0.0.2", TCP, body))
    six = parse_frame(1.0, ETHER + b"\x81\x00\x00\x05\x86\xdd" + ipv6("fd00::1", "fd00::2", TCP, body))
    assert four is not None
    assert six is not None
    assert (four.source, four.source_port, four.target_port, four.seq, four.ack, four.flags) == (
        "10.0.0.1",
        1000,
        80,
        5,
        6,
        4,
    )
    assert (six.source, six.target, six.source_port) == ("fd00::1", "fd00::2", 1000)


@pytest.mark.parametrize("family", [4, 6])
def test_an_unreachable_quotes_the_packet_it_speaks_of(family: int) -> None:
    if family == 4:
        inner = ipv4("10.0.0.1", "10.0.0.2", UDP, struct.pack(">HHHH", 7, 8, 8, 0))
        outer = b"\x08\x00" + ipv4("10.0.0.2", "10.0.0.1", ICMP, b"\x03\x01" + bytes(6) + inner)
    else:
        inner = ipv6("fd00::1", "fd00::2", UDP, struct.pack(">HHHH", 7, 8, 8, 0))
        outer = b"\x86\xdd" + ipv6("fd00::2", "fd00::1", ICMPV6, b"\x01\x00" + bytes(6) + inner)
    packet = parse_frame(1.0, ETHER + outer)
    assert packet is not None
    assert packet.is_unreachable
    assert packet.quoted is not None
    assert (packet.quoted.source_port, packet.quoted.target_port) == (7, 8)


def test_what_is_not_whole_ip_is_passed_over() -> None:
    assert parse_frame(1.0, ETHER + b"\x08\x06" + bytes(28)) is None
    assert parse_frame(1.0, ETHER + b"\x08\x00\x45") is None


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    frame = ETHER + b"\x08\x00" + ipv4("10.0.0.1", "10.0.0.2", TCP, tcp_header(1, 2))
    good = (
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 134, 1)
        + struct.pack("<IIII", 10, 500000, len(frame), len(frame))
        + frame
    )
    (tmp_path / "a").write_bytes(good)
    (packet,) = read(tmp_path / "a")
    assert packet.at == 10.5
    (tmp_path / "b").write_bytes(b"\x0a\x0d\x0d\x0a" + good[4:])
    with pytest.raises(ValueError, match="expected form"):
        list(read(tmp_path / "b"))
