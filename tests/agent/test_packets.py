from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.agent import packets

MAC = bytes.fromhex("0a58ac100164")
VIP, VIP6 = IPv4Address("172.16.1.100"), IPv6Address("fd00:172:16:1::100")


def test_a_gratuitous_request_asks_for_the_own_address() -> None:
    frame = packets.garp(MAC, VIP, reply=False)
    assert len(frame) == 60
    assert frame[:14] == b"\xff" * 6 + MAC + b"\x08\x06"
    assert frame[14:42] == bytes.fromhex("0001080006040001") + MAC + VIP.packed + bytes(6) + VIP.packed


def test_a_gratuitous_reply_is_addressed_to_all() -> None:
    frame = packets.garp(MAC, VIP, reply=True)
    assert frame[20:22] == b"\0\2"
    assert frame[32:38] == b"\xff" * 6


def test_a_rarp_says_only_where_the_mac_is() -> None:
    frame = packets.rarp(MAC)
    assert frame[12:14] == b"\x80\x35"
    assert frame[14:42] == bytes.fromhex("0001080006040003") + MAC + bytes(4) + MAC + bytes(4)


@given(st.ip_addresses(v=6), st.none() | st.integers(1, 4094))
def test_an_unsolicited_advertisement_has_a_right_checksum(address: IPv6Address, vlan: int | None) -> None:
    frame = packets.unsolicited_na(MAC, address, vlan)
    start = 18 if vlan else 14
    header, body = frame[start : start + 40], frame[start + 40 : start + 72]
    assert frame[:6] == bytes.fromhex("333300000001")
    assert (header[7], header[8:24]) == (255, address.packed)
    assert (body[4], body[8:24], body[26:]) == (0xA0, address.packed, MAC)
    data = header[8:] + struct.pack("!I3xB", 32, 58) + body
    total = sum(int(word) for (word,) in struct.iter_unpack("!H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF


def test_an_announcement_has_every_address_and_the_tag_of_the_localnet_port() -> None:
    frames = packets.announcement(MAC, (VIP, VIP6), 5)
    assert len(frames) == 3
    assert {frame[12:16] for frame in frames} == {b"\x81\x00\x00\x05"}
    assert packets.announcement(MAC, (), None) == [packets.rarp(MAC)]
    assert packets.announcement(MAC, (VIP,), 0) == packets.announcement(MAC, (VIP,), None)


@pytest.mark.parametrize(
    "text", ["", "0a:58", "0a:58:ac:10:01:zz", "0a58ac100164", "01:00:5e:00:00:01", "a:58:ac:10:1:64"]
)
def test_what_is_no_port_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"MAC address|group address|invalid literal"):
        packets.parse_mac(text)
