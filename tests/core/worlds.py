"""Small Northbound and Southbound pictures, requests and specs for the tests of the UDN's core."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from ovnmig.core.udn import UdnRequest, UdnSpec
from ovnmig.core.validate import resolve
from ovnmig.core.views import (
    BindingView,
    ChassisView,
    NbView,
    OwnedRow,
    PortView,
    RouterPortView,
    RouterView,
    SbView,
    SwitchView,
)

OWNER = "house"


def chassis(name: str, *networks: str, preferred: bool = False) -> ChassisView:
    return ChassisView(name, f"{name}.example", ("192.0.2.1",), frozenset(networks), preferred)


def bound(port: str, where: str) -> BindingView:
    return BindingView(port, "", where, (), (), True, "d")


def port(
    name: str,
    *addresses: str,
    kind: str = "",
    uuid: str = "",
    options: dict[str, str] | None = None,
) -> PortView:
    return PortView(uuid or f"uuid-{name}", name, kind, addresses, options or {}, {})


def switch(name: str, *ports: PortView, uuid: str = "") -> SwitchView:
    return SwitchView(uuid or f"uuid-{name}", name, ports)


def router_port(name: str, *networks: str) -> RouterPortView:
    return RouterPortView(f"uuid-{name}", name, "00:00:00:00:00:aa", networks, (), False)


def router(name: str, *ports: RouterPortView, **others: Any) -> RouterView:
    empty: dict[str, Any] = {"options": {}, "external_ids": {}, "nats": ()}
    return RouterView(uuid=f"uuid-{name}", name=name, ports=ports, **{**empty, **others})


def owned(uuid: str, role: str, table: str, udn: str = "blue") -> OwnedRow:
    return OwnedRow(uuid, udn, role, table, {}, None)


NB = NbView(switches=(switch("net", port("vm1", "00:00:00:00:00:01 10.0.0.5 fd00::5")),))
SB = SbView(
    chassis=(chassis("a", "phys"), chassis("b", "phys"), chassis("c", "phys"), chassis("x", "other")),
    bindings=(bound("vm1", "b"),),
)
REQUEST = UdnRequest(
    name="blue",
    subnets=(ip_network("10.0.0.0/24"), ip_network("fd00::/64")),
    vips=(ip_interface("172.16.1.100/24"), ip_interface("fd01::100/64")),
    nexthops=(ip_address("172.16.1.1"), ip_address("fd01::1")),
    physical_network="phys",
    switch="net",
)
IPV4 = replace(REQUEST, subnets=REQUEST.subnets[:1], vips=REQUEST.vips[:1], nexthops=REQUEST.nexthops[:1])


def spec(request: UdnRequest = REQUEST, nb: NbView = NB, sb: SbView = SB) -> UdnSpec:
    return resolve(request, nb, sb, owner=OWNER)
