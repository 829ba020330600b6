"""Addresses from text, and what an address may be used for. Messages say what to write instead."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_interface, ip_network

from ovnmig.core.udn import Address, Interface, Network, Problem, Refused


def _refused(code: str, message: str, field: str) -> Refused:
    return Refused((Problem(code, message, field),))


def parse_subnet(text: str, field: str = "subnets") -> Network:
    """A subnet such as ``10.0.0.0/24``. Raises Refused: not a subnet, or host bits set."""
    try:
        loose = ip_network(text, strict=False)
    except ValueError:
        raise _refused(
            "bad-subnet", f"{text!r} is not a subnet; write it like 10.0.0.0/24 or fd00:1::/64", field
        ) from None
    if "/" not in text:
        raise _refused("bad-subnet", f"{text!r} has no prefix length; write it like {text}/24", field)
    try:
        return ip_network(text)
    except ValueError:
        raise _refused("host-bits-set", f"{text} has host bits set; did you mean {loose}?", field) from None


def parse_interface(text: str, field: str = "vips") -> Interface:
    """An address with the prefix of its subnet, such as ``172.16.1.100/24``. Raises Refused."""
    try:
        interface = ip_interface(text)
    except ValueError:
        raise _refused(
            "bad-address", f"{text!r} is not an address with prefix; write it like 172.16.1.100/24", field
        ) from None
    if "/" not in text:
        raise _refused(
            "prefix-missing", f"{text} has no prefix; give that of its subnet, for example {text}/24", field
        )
    return interface


def parse_address(text: str, field: str = "nexthops") -> Address:
    """An address without prefix, such as ``172.16.1.1``. Raises Refused."""
    try:
        return ip_address(text)
    except ValueError:
        raise _refused("bad-address", f"{text!r} is not an IPv4 or IPv6 address", field) from None


def reserved_role(address: Address, network: Network) -> str | None:
    """``network``, ``broadcast`` or ``subnet-router`` when ``address`` may not be a host's in ``network``,
    else ``None``."""
    if isinstance(network, IPv4Network):
        if network.prefixlen >= 31:
            return None
        if address == network.network_address:
            return "network"
        return "broadcast" if address == network.broadcast_address else None
    if network.prefixlen < 127 and address == network.network_address:
        return "subnet-router"
    return None


def is_host_address(address: Address) -> bool:
    """False for addresses no host can own on a network: unspecified, loopback, link-local, multicast."""
    return not (
        address.is_unspecified or address.is_loopback or address.is_link_local or address.is_multicast
    )


def first_host(network: Network) -> Interface:
    """The subnet's first host address with its prefix, the usual gateway."""
    offset = 0 if network.prefixlen >= network.max_prefixlen - 1 else 1
    return ip_interface(f"{network.network_address + offset}/{network.prefixlen}")


def contains(network: Network, address: Address) -> bool:
    """Whether ``address`` is in ``network``; False across families."""
    return network.version == address.version and address in network


def overlap(one: Network, other: Network) -> bool:
    """Whether two subnets share an address; False across families."""
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return not isinstance(other, IPv4Network) and one.overlaps(other)
