"""What is wrong with a request by itself, whatever the databases say."""

from __future__ import annotations

import unicodedata

from ovnmig.core import addresses
from ovnmig.core.conflicts import Findings
from ovnmig.core.udn import Interface, Replication, UdnRequest

MAX_NAME_LENGTH = 200
MAX_STANDBYS = 8


def check_shape(request: UdnRequest, found: Findings) -> None:
    """All problems of the request's own making."""
    _check_name(request.name, found)
    if not request.physical_network:
        found.add("physical-network-missing", "name the physical network of the uplink", "physical_network")
    _check_subnets(request, found)
    _check_vips(request, found)
    _check_families(request, found)
    _check_nexthops(request, found)
    if request.gateway_addresses is not None:
        _check_gateways(request, request.gateway_addresses, found)
    _check_numbers(request, found)
    if len(set(request.chassis)) != len(request.chassis):
        found.add("chassis-twice", "name each allowed chassis once", "chassis")


def _check_name(name: str, found: Findings) -> None:
    if not name.strip():
        found.add("bad-name", "give the UDN a name", "name")
    elif name in {".", ".."}:
        found.add("bad-name", f"{name!r} cannot stand in a URL path; use another name", "name")
    if "/" in name:
        found.add("bad-name", "a UDN name may not hold '/'; use '-' or '.' instead", "name")
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in name):
        found.add("bad-name", "a UDN name may not hold control characters or lone surrogates", "name")
    if len(name) > MAX_NAME_LENGTH:
        found.add("bad-name", f"a UDN name may have {MAX_NAME_LENGTH} characters at most", "name")


def _check_subnets(request: UdnRequest, found: Findings) -> None:
    if not request.subnets:
        found.add("subnets-missing", "give at least one subnet of the UDN", "subnets")
    for i, subnet in enumerate(request.subnets):
        if subnet.prefixlen == 0 or not addresses.is_host_address(subnet.network_address):
            found.add("bad-subnet", f"{subnet} cannot be a UDN's subnet; use a unicast range", "subnets")
        for other in request.subnets[:i]:
            if addresses.overlap(subnet, other):
                found.add(
                    "subnets-overlap", f"subnets {other} and {subnet} overlap; give them apart", "subnets"
                )


def _check_vips(request: UdnRequest, found: Findings) -> None:
    if not request.vips:
        found.add("vips-missing", "give a VIP with the prefix of the external subnet", "vips")
    for family in (4, 6):
        if sum(vip.version == family for vip in request.vips) > 1:
            found.add("too-many-vips", f"give one IPv{family} VIP; sessions leave with exactly one", "vips")
    for vip in request.vips:
        _check_vip(vip, request, found)


def _check_vip(vip: Interface, request: UdnRequest, found: Findings) -> None:
    if not addresses.is_host_address(vip.ip):
        found.add("bad-vip", f"VIP {vip.ip} is not a unicast address hosts may have", "vips")
        return
    role = addresses.reserved_role(vip.ip, vip.network)
    if role is not None:
        found.add(
            "vip-reserved",
            f"VIP {vip.ip} is the {role} address of {vip.network}; choose a host address",
            "vips",
        )
    if vip.network.prefixlen == vip.network.max_prefixlen:
        found.add(
            "vip-prefix",
            f"give the VIP with the prefix of the external subnet, not /{vip.network.prefixlen}",
            "vips",
        )
    for subnet in request.subnets:
        if addresses.overlap(vip.network, subnet):
            found.add(
                "external-overlaps-subnet",
                f"the external subnet {vip.network} overlaps the UDN's subnet {subnet}; they must differ",
                "vips",
            )


def _check_families(request: UdnRequest, found: Findings) -> None:
    inside = {subnet.version for subnet in request.subnets}
    outside = {vip.version for vip in request.vips}
    for family in sorted(inside - outside) if outside else ():
        found.add(
            "family-mismatch",
            f"an IPv{family} subnet needs an IPv{family} VIP; add one or drop the subnet",
            "vips",
        )
    for family in sorted(outside - inside) if inside else ():
        found.add(
            "family-mismatch",
            f"an IPv{family} VIP needs an IPv{family} subnet; add one or drop the VIP",
            "subnets",
        )


def _check_nexthops(request: UdnRequest, found: Findings) -> None:
    for family in (4, 6):
        if sum(nexthop.version == family for nexthop in request.nexthops) > 1:
            found.add("too-many-nexthops", f"give one IPv{family} next hop", "nexthops")
    for nexthop in request.nexthops:
        vips = [vip for vip in request.vips if vip.version == nexthop.version]
        if not vips:
            found.add(
                "family-mismatch",
                f"next hop {nexthop} has no VIP of its family; add one or drop it",
                "nexthops",
            )
        for vip in vips:
            if vip.ip == nexthop:
                found.add("vip-is-gateway", f"VIP {vip.ip} is the external gateway's own address", "vips")
            elif not addresses.contains(vip.network, nexthop):
                found.add(
                    "vip-outside-subnet",
                    f"VIP {vip} and next hop {nexthop} are not in one subnet; "
                    "give a VIP of the external subnet with its prefix",
                    "vips",
                )
            elif addresses.reserved_role(nexthop, vip.network) is not None:
                found.add(
                    "bad-nexthop", f"next hop {nexthop} is not a host address of {vip.network}", "nexthops"
                )


def _check_gateways(request: UdnRequest, gateways: tuple[Interface, ...], found: Findings) -> None:
    where = "gateway_addresses"
    for subnet in request.subnets:
        count = sum(gateway.network == subnet for gateway in gateways)
        if count != 1:
            found.add(
                "bad-gateway-address", f"give one gateway address for subnet {subnet}, with its prefix", where
            )
    for gateway in gateways:
        if gateway.network not in request.subnets:
            found.add(
                "bad-gateway-address", f"gateway address {gateway} is of none of the UDN's subnets", where
            )
        elif addresses.reserved_role(gateway.ip, gateway.network) is not None:
            found.add(
                "bad-gateway-address", f"{gateway.ip} is not a host address of {gateway.network}", where
            )


def _check_numbers(request: UdnRequest, found: Findings) -> None:
    if request.vlan is not None and not 1 <= request.vlan <= 4094:
        found.add("bad-vlan", f"VLAN {request.vlan} is out of range; use 1 to 4094, or none", "vlan")
    if request.port_range is not None:
        low, high = request.port_range
        if not 1 <= low <= high <= 65535:
            found.add(
                "bad-port-range",
                f"port range {low}-{high} is wrong; use 1 <= low <= high <= 65535",
                "port_range",
            )
    if not 0 <= request.standby_count <= MAX_STANDBYS:
        found.add("bad-standby-count", f"use 0 to {MAX_STANDBYS} standbys", "standby_count")
    if request.replication is Replication.CONTINUOUS and request.standby_count == 0:
        found.add(
            "replication-needs-standby",
            "continuous replication needs a standby to replicate to; use standby_count 1 or more",
            "replication",
        )
