from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

import pytest

from ovnmig.core.conflicts import Findings
from ovnmig.core.shape import check_shape
from tests.core.worlds import IPV4, REQUEST


def problems(**changes: Any) -> list[tuple[str, str | None]]:
    found = Findings()
    check_shape(replace(changes.pop("request", IPV4), **changes), found)
    assert all(problem.message and not problem.conflict for problem in found.problems)
    return [(problem.code, problem.field) for problem in found.problems]


def networks(*texts: str) -> tuple[Any, ...]:
    return tuple(ip_network(text) for text in texts)


def interfaces(*texts: str) -> tuple[Any, ...]:
    return tuple(ip_interface(text) for text in texts)


def addresses(*texts: str) -> tuple[Any, ...]:
    return tuple(ip_address(text) for text in texts)


def test_a_good_request_has_no_problem() -> None:
    assert problems() == []
    assert problems(request=REQUEST, vlan=4094, port_range=(1, 65535), chassis=("a", "b")) == []


@pytest.mark.parametrize(
    "name", ["blue", "bl ue", 'b"l', "b.l", "é\u0301", "名前", "-", "a" * 200, "\U0001f410"]
)
def test_any_name_works(name: str) -> None:
    assert problems(name=name) == []


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "a/b", "a\nb", "\0", "a\x7f", "\ud800", "a\u2028", "a" * 201]
)
def test_a_name_nothing_can_carry_is_refused(name: str) -> None:
    assert set(problems(name=name)) == {("bad-name", "name")}


def test_the_physical_network_is_needed() -> None:
    assert problems(physical_network="") == [("physical-network-missing", "physical_network")]


def test_subnets_are_needed_apart_and_unicast() -> None:
    assert ("subnets-missing", "subnets") in problems(subnets=())
    assert problems(subnets=networks("10.0.0.0/24", "10.0.0.0/25")) == [("subnets-overlap", "subnets")]
    assert ("bad-subnet", "subnets") in problems(subnets=networks("224.0.0.0/24"))
    assert ("bad-subnet", "subnets") in problems(subnets=networks("0.0.0.0/0"))


def test_one_vip_of_a_family_is_needed() -> None:
    assert problems(vips=(), nexthops=()) == [("vips-missing", "vips")]
    two = interfaces("172.16.1.100/24", "172.16.1.101/24")
    assert problems(vips=two) == [("too-many-vips", "vips")]


@pytest.mark.parametrize(
    ("vip", "code"),
    [
        ("172.16.1.0/24", "vip-reserved"),
        ("172.16.1.255/24", "vip-reserved"),
        ("127.0.0.1/24", "bad-vip"),
        ("172.16.1.100/32", "vip-prefix"),
        ("10.0.0.7/8", "external-overlaps-subnet"),
    ],
)
def test_a_vip_that_cannot_be_one_is_refused(vip: str, code: str) -> None:
    assert problems(vips=interfaces(vip), nexthops=()) == [(code, "vips")]


def test_an_ipv6_vip_may_not_be_the_subnet_routers() -> None:
    six = replace(REQUEST, vips=interfaces("172.16.1.100/24", "fd01::/64"))
    assert problems(request=six) == [("vip-reserved", "vips")]


def test_families_of_subnets_and_vips_must_match_both_ways() -> None:
    assert problems(subnets=REQUEST.subnets) == [("family-mismatch", "vips")]
    assert problems(vips=REQUEST.vips) == [("family-mismatch", "subnets")]
    assert problems(nexthops=REQUEST.nexthops) == [("family-mismatch", "nexthops")]


def test_the_vip_must_be_in_the_next_hops_subnet_and_not_be_it() -> None:
    assert problems(nexthops=addresses("172.16.2.1")) == [("vip-outside-subnet", "vips")]
    assert problems(nexthops=addresses("172.16.1.100")) == [("vip-is-gateway", "vips")]
    assert problems(nexthops=addresses("172.16.1.255")) == [("bad-nexthop", "nexthops")]
    assert problems(nexthops=addresses("172.16.1.1", "172.16.1.2")) == [("too-many-nexthops", "nexthops")]
    assert problems(nexthops=()) == []


@pytest.mark.parametrize(
    "gateways",
    [
        (),
        ("10.0.0.255/24",),
        ("10.0.0.1/24", "10.0.0.2/24"),
        ("10.0.0.1/25",),
        ("10.0.0.1/24", "10.9.0.1/24"),
    ],
)
def test_each_subnet_needs_one_gateway_address_of_its_own(gateways: tuple[str, ...]) -> None:
    found = problems(gateway_addresses=interfaces(*gateways))
    assert found
    assert set(found) == {("bad-gateway-address", "gateway_addresses")}


def test_a_gateway_address_may_be_any_host_of_the_subnet() -> None:
    assert problems(gateway_addresses=interfaces("10.0.0.254/24")) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"vlan": 0}, "bad-vlan"),
        ({"vlan": 4095}, "bad-vlan"),
        ({"port_range": (0, 5)}, "bad-port-range"),
        ({"port_range": (6, 5)}, "bad-port-range"),
        ({"port_range": (1, 65536)}, "bad-port-range"),
        ({"standby_count": -1}, "bad-standby-count"),
        ({"standby_count": 9}, "bad-standby-count"),
        ({"chassis": ("a", "a")}, "chassis-twice"),
    ],
)
def test_numbers_out_of_range_are_refused(change: dict[str, Any], code: str) -> None:
    assert [found for found, _ in problems(**change)] == [code]


def test_all_problems_are_told_at_once() -> None:
    found = problems(name="a/b", vlan=5000, subnets=(), vips=())
    assert {code for code, _ in found} >= {"bad-name", "bad-vlan", "subnets-missing", "vips-missing"}
