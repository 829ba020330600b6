"""The frames that tell a network where an address is now: gratuitous ARP, unsolicited NA, RARP.

Injected at a provider bridge's patch port, a frame is where OVN's own frames of that localnet port are:
behind ovn-controller's VLAN push. So it carries the localnet port's VLAN tag itself, if there is one.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

_BROADCAST = b"\xff" * 6
_ARP, _RARP, _IPV6, _VLAN = 0x0806, 0x8035, 0x86DD, 0x8100
_REQUEST, _REPLY, _RARP_REQUEST = 1, 2, 3
_ALL_NODES = IPv6Address("ff02::1")
_ICMPV6, _NEIGHBOUR_ADVERTISEMENT, _TARGET_LINK_LAYER = 58, 136, 2
_ROUTER, _OVERRIDE = 0x80000000, 0x20000000
_MIN_FRAME = 60


def parse_mac(text: str) -> bytes:
    """Six bytes of ``xx:xx:xx:xx:xx:xx``. Raises ValueError for anything else, group addresses included."""
    parts = text.split(":")
    if len(parts) != 6 or any(len(part) != 2 for part in parts):
        raise ValueError(f"{text!r} is not a MAC address like 0a:58:ac:10:01:64")
    mac = bytes(int(part, 16) for part in parts)
    if mac[0] & 1:
        raise ValueError(f"{text!r} is a group address, not the address of a port")
    return mac


def announcement(
    mac: bytes, addresses: tuple[IPv4Address | IPv6Address, ...], vlan: int | None
) -> list[bytes]:
    """All frames of one announcement: two ARP forms per IPv4, one NA per IPv6 address; else a RARP."""
    out: list[bytes] = []
    for address in addresses:
        if isinstance(address, IPv4Address):
            out += [garp(mac, address, vlan, reply=False), garp(mac, address, vlan, reply=True)]
        else:
            out.append(unsolicited_na(mac, address, vlan))
    return out or [rarp(mac, vlan)]


def garp(mac: bytes, address: IPv4Address, vlan: int | None = None, *, reply: bool) -> bytes:
    """Gratuitous ARP in request form (RFC 5227) or reply form: neighbours differ in which they heed."""
    target = _BROADCAST if reply else bytes(6)
    body = _arp_body(_REPLY if reply else _REQUEST, mac, address.packed, target, address.packed)
    return _frame(_BROADCAST, mac, vlan, _ARP, body)


def rarp(mac: bytes, vlan: int | None = None) -> bytes:
    """What a hypervisor sends for a VM that arrived: moves forwarding tables, changes no neighbour cache."""
    return _frame(_BROADCAST, mac, vlan, _RARP, _arp_body(_RARP_REQUEST, mac, bytes(4), mac, bytes(4)))


def unsolicited_na(mac: bytes, address: IPv6Address, vlan: int | None = None) -> bytes:
    """Unsolicited neighbour advertisement (RFC 4861, 7.2.6): override, from a router, to all nodes."""
    head = struct.pack("!BBHI", _NEIGHBOUR_ADVERTISEMENT, 0, 0, _ROUTER | _OVERRIDE)
    body = head + address.packed + bytes((_TARGET_LINK_LAYER, 1)) + mac
    pseudo = address.packed + _ALL_NODES.packed + struct.pack("!I3xB", len(body), _ICMPV6)
    body = body[:2] + struct.pack("!H", _checksum(pseudo + body)) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), _ICMPV6, 255) + address.packed + _ALL_NODES.packed
    return _frame(b"\x33\x33" + _ALL_NODES.packed[-4:], mac, vlan, _IPV6, header + body)


def _arp_body(operation: int, sha: bytes, spa: bytes, target_mac: bytes, tpa: bytes) -> bytes:
    return struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + sha + spa + target_mac + tpa


def _frame(target: bytes, source: bytes, vlan: int | None, ether_type: int, payload: bytes) -> bytes:
    tag = struct.pack("!HH", _VLAN, vlan) if vlan else b""
    frame = target + source + tag + struct.pack("!H", ether_type) + payload
    return frame.ljust(_MIN_FRAME + len(tag), b"\0")


def _checksum(data: bytes) -> int:
    total = sum(int(word) for (word,) in struct.iter_unpack("!H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
