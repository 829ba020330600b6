"""What cannot be is refused with the reason, and the whole database is as it was."""

from __future__ import annotations

import json

import pytest

from tests.nb.server import DatabaseServer
from tests.nb.test_serve import NAME, UDN, Service, databases, service  # noqa: F401  # the fixtures
from tests.nb.world import insert

REFUSALS = {
    "next hop outside the external subnet": ["--nexthop", "172.16.2.1"],
    "VIP equal to the next hop": ["--vip", "172.16.1.1/24"],
    "VIP is the network address": ["--vip", "172.16.1.0/24"],
    "VIP is the broadcast address": ["--vip", "172.16.1.255/24"],
    "VIP of another UDN": ["--vip", "172.16.1.100/24"],
    "IPv6 VIP for an IPv4 subnet": ["--vip", "2001:db8::7/64", "--nexthop", "2001:db8::1"],
    "host bits set": ["--subnet", "10.9.0.7/24"],
    "overlapping subnets": ["--subnet", "10.9.0.0/24", "--subnet", "10.9.0.128/25"],
    "unknown switch": ["--switch", "nowhere"],
    "ambiguous switch": ["--switch", "twice"],
    "unknown chassis": ["--chassis", "nowhere"],
    "a network nobody maps": ["--physical-network", "moon"],
    "SNAT zone of another UDN": ["--snat-zone", "ZONE"],
}


def request(changes: list[str], zone: int) -> list[str]:
    """The words of a request that is fine but for these changes."""
    fine = {
        "--subnet": ["10.9.0.0/24"],
        "--vip": ["172.16.1.109/24"],
        "--nexthop": ["172.16.1.1"],
        "--physical-network": ["public"],
    }
    asked: dict[str, list[str]] = {}
    for option, value in zip(changes[::2], changes[1::2], strict=True):
        asked.setdefault(option, []).append(value.replace("ZONE", str(zone)))
    words = [
        word for option, values in (fine | asked).items() for value in values for word in (option, value)
    ]
    return words if "--switch" in asked else [*words, "--create-switch"]


def add_switches(server: DatabaseServer, *names: str) -> None:
    """Somebody else's switches."""
    server.transact(*(insert("Logical_Switch", name=name) for name in names))


@pytest.mark.timeout(180)
def test_a_refused_creation_or_change_says_why_and_touches_no_row(service: Service) -> None:  # noqa: F811
    add_switches(service.nb, "twice", "twice")
    zone = service.answer("udn", "create", NAME, *UDN)["snat_zone"]
    before = service.nb.contents()
    assert service.cli("udn", "create", "fine", *request([], zone))[0] == 0, (
        "it is the change that is refused"
    )
    assert service.cli("udn", "delete", "fine")[0] == 0
    assert service.nb.contents() == before
    for what, changes in REFUSALS.items():
        code, out, err = service.cli("udn", "create", "refused", *request(changes, zone), "--json")
        assert code in (1, 3, 4), f"{what}: {code} {err}"
        assert json.loads(out)["detail"], what
        assert service.nb.contents() == before, what
    for changes in (
        ["--vip", "172.16.1.255/24", "--vip", "2001:db8::100/64"],
        ["--physical-network", "moon"],
    ):
        assert service.cli("udn", "set", NAME, *changes)[0] in (1, 4)
        assert service.nb.contents() == before, str(changes)
