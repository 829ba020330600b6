"""The world beyond the provider network: a server, and the upstream gateway's addresses, in one namespace."""

from __future__ import annotations

import ipaddress

from devenv.guest import links
from devenv.guest.plan import INNER_MTU, PROVIDER_BRIDGE, IPAddress, Plan

NAME = "outside"
LINK = "eth0"
PEER = "out0"
MAC = "02:00:00:00:03:01"

EXTERNAL_V4 = ipaddress.IPv4Network("172.16.1.0/24")
EXTERNAL_V6 = ipaddress.IPv6Network("fd00:172:16:1::/64")
SERVER_V4 = EXTERNAL_V4[50]
SERVER_V6 = EXTERNAL_V6[0x50]
GATEWAY_V4 = EXTERNAL_V4[1]
GATEWAY_V6 = EXTERNAL_V6[1]
# What the node-address control run gives node N (counted from 1): 172.16.1.(10+N).
NODE_ADDRESS_BASE = 10


def address_lines(device: str) -> list[str]:
    """Server and gateway addresses; the server's first, so that it is the source of new connections."""
    wanted: list[tuple[IPAddress, int]] = [
        (SERVER_V4, EXTERNAL_V4.prefixlen),
        (GATEWAY_V4, EXTERNAL_V4.prefixlen),
        (GATEWAY_V6, EXTERNAL_V6.prefixlen),
        (SERVER_V6, EXTERNAL_V6.prefixlen),
    ]
    lines = []
    for address, prefix_len in wanted:
        nodad = " nodad" if address.version == 6 else ""
        lines.append(f"addr add {address}/{prefix_len} dev {device}{nodad}")
    return lines


def build(plan: Plan) -> None:
    """The namespace and its cable. With OUTSIDE_VLAN the addresses sit on the tagged device.

    There is no route beyond the external subnet: an answer to an untranslated private source goes nowhere, as
    in a network that does not know the VMs' addresses.
    """
    links.add_namespace(NAME)
    links.ip_batch(links.cable_lines(LINK, NAME, PEER, PROVIDER_BRIDGE, mtu=INNER_MTU, mac=MAC))
    device = LINK
    lines = [f"link set {LINK} addrgenmode none", f"link set {LINK} up"]
    if plan.outside_vlan is not None:
        device = f"{LINK}.{plan.outside_vlan}"
        lines += [
            f"link add link {LINK} name {device} type vlan id {plan.outside_vlan}",
            f"link set {device} addrgenmode none",
            f"link set {device} up",
        ]
    links.ip_batch(lines + address_lines(device), namespace=NAME)


def remove() -> None:
    links.delete_namespace(NAME)
