from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

import pytest

from ovnmig.core import addresses
from ovnmig.core.udn import Refused


def test_a_subnet_is_read() -> None:
    assert addresses.parse_subnet("10.0.0.0/24") == ip_network("10.0.0.0/24")
    assert addresses.parse_subnet("2001:DB8::/32") == ip_network("2001:db8::/32")


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("10.0.0.1/24", "host-bits-set", "did you mean 10.0.0.0/24?"),
        ("fd00::1/64", "host-bits-set", "did you mean fd00::/64?"),
        ("10.0.0.0", "bad-subnet", "has no prefix length"),
        ("blue", "bad-subnet", "write it like 10.0.0.0/24"),
    ],
)
def test_a_wrong_subnet_is_refused_with_what_to_write(text: str, code: str, hint: str) -> None:
    with pytest.raises(Refused) as refused:
        addresses.parse_subnet(text)
    (problem,) = refused.value.problems
    assert (problem.code, problem.field) == (code, "subnets")
    assert hint in problem.message


def test_an_interface_is_read() -> None:
    assert addresses.parse_interface("172.16.1.100/24") == ip_interface("172.16.1.100/24")


@pytest.mark.parametrize(("text", "code"), [("172.16.1.100", "prefix-missing"), ("x/24", "bad-address")])
def test_a_wrong_interface_is_refused(text: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        addresses.parse_interface(text, "gateway_addresses")
    assert [(p.code, p.field) for p in refused.value.problems] == [(code, "gateway_addresses")]


def test_an_address_is_read_or_refused() -> None:
    assert addresses.parse_address("fd00::1") == ip_address("fd00::1")
    with pytest.raises(Refused, match="not an IPv4 or IPv6 address"):
        addresses.parse_address("fd00::1/64")


@pytest.mark.parametrize(
    ("interface", "role"),
    [
        ("10.0.0.0/24", "network"),
        ("10.0.0.255/24", "broadcast"),
        ("10.0.0.254/24", None),
        ("10.0.0.0/31", None),
        ("10.0.0.1/32", None),
        ("fd00::/64", "subnet-router"),
        ("fd00::1/64", None),
        ("fd00::/127", None),
    ],
)
def test_reserved_addresses_of_a_network_are_known(interface: str, role: str | None) -> None:
    address = ip_interface(interface)
    assert addresses.reserved_role(address.ip, address.network) == role


@pytest.mark.parametrize(
    ("text", "usable"),
    [("10.0.0.1", True), ("0.0.0.0", False), ("127.0.0.1", False), ("fe80::1", False), ("ff02::1", False)],
)
def test_only_unicast_addresses_belong_to_hosts(text: str, usable: bool) -> None:
    assert addresses.is_host_address(ip_address(text)) is usable


@pytest.mark.parametrize(
    ("network", "host"),
    [("10.0.0.0/24", "10.0.0.1/24"), ("10.0.0.0/31", "10.0.0.0/31"), ("fd00::/64", "fd00::1/64")],
)
def test_the_first_host_is_the_usual_gateway(network: str, host: str) -> None:
    assert addresses.first_host(ip_network(network)) == ip_interface(host)


def test_families_never_contain_or_overlap_each_other() -> None:
    four, six = ip_network("10.0.0.0/8"), ip_network("fd00::/8")
    assert not addresses.contains(four, ip_address("fd00::1"))
    assert addresses.contains(six, ip_address("fd00::1"))
    assert not addresses.overlap(four, six)
    assert not addresses.overlap(six, four)
    assert addresses.overlap(four, ip_network("10.1.0.0/16"))
    assert addresses.overlap(ip_network("fd00:1::/32"), six)
