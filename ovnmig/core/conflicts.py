"""What a request wants that something else in the Northbound database already holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_interface
from itertools import product

from ovnmig.core import addresses, names
from ovnmig.core.document import DocumentError, decode
from ovnmig.core.rows import OWNER_MARK, UDN_MARK
from ovnmig.core.udn import Address, Interface, Network, Problem, UdnRequest
from ovnmig.core.views import NbView, PortView


@dataclass(slots=True)
class Findings:
    """Problems collected so far."""

    problems: list[Problem] = field(default_factory=list)

    def add(self, code: str, message: str, where: str, *, conflict: bool = False) -> None:
        """Note one problem, once."""
        problem = Problem(code, message, where, conflict)
        if problem not in self.problems:
            self.problems.append(problem)


def _address(text: str) -> Address | None:
    """The address in ``text`` (with or without prefix); ``None`` for anything else: the database may hold any
    string."""
    try:
        return ip_interface(text).ip
    except ValueError:
        return None


def _network(text: str) -> Network | None:
    """The network of an address with prefix, likewise."""
    try:
        return ip_interface(text).network
    except ValueError:
        return None


def address_users(nb: NbView, own: set[str]) -> dict[Address, str]:
    """Address -> who holds it on a router that is not this UDN's: a port, a NAT row, a load balancer."""
    users: dict[Address, str] = {}

    def note(text: str, who: str) -> None:
        address = _address(text)
        if address is not None:
            users.setdefault(address, who)

    for router in nb.routers:
        if router.uuid in own:
            continue
        for port in router.ports:
            for network in port.networks:
                note(network, f"port {port.name!r} of router {router.name!r}")
        for nat in router.nats:
            note(nat.external_ip, f"a NAT rule of router {router.name!r}")
    for vip in nb.load_balancer_vips:
        note(vip, "a load balancer")
    return users


def check_vips_free(
    request: UdnRequest, nb: NbView, own: set[str], users: dict[Address, str], found: Findings
) -> None:
    """No VIP may be somebody else's address already."""
    for vip in request.vips:
        if vip.ip in users:
            found.add(
                "vip-in-use",
                f"VIP {vip.ip} is in use by {users[vip.ip]}; choose another",
                "vips",
                conflict=True,
            )


def check_next_hops(request: UdnRequest, nb: NbView, found: Findings) -> None:
    """No VIP may be the external gateway of another UDN on the same wire: it would answer in its place."""
    for record in nb.records:
        if record.udn == request.name:
            continue
        try:
            other = decode(record.document).spec
        except DocumentError:
            continue
        if (other.physical_network, other.vlan) != (request.physical_network, request.vlan):
            continue
        for vip in request.vips:
            if vip.ip in other.nexthops:
                found.add(
                    "vip-is-gateway",
                    f"VIP {vip.ip} is the external gateway of UDN {other.name!r}; choose another",
                    "vips",
                )


def check_names(udn: str, nb: NbView, own: set[str], found: Findings) -> None:
    """No router or port of somebody else may have our names: routers of one name share conntrack zones."""
    named = names.gateway_names(udn)
    router_ports = {named.inner_port, named.external_port}
    switch_ports = {named.localnet_port, *(names.switch_port_name(port) for port in router_ports)}
    taken = [f"router {r.name!r}" for r in nb.routers if r.name == named.router and r.uuid not in own]
    taken += [
        f"router port {port.name!r}"
        for router in nb.routers
        for port in router.ports
        if port.name in router_ports and port.uuid not in own
    ]
    taken += [
        f"switch {s.name!r}" for s in nb.switches if s.name == named.external_switch and s.uuid not in own
    ]
    taken += [
        f"switch port {port.name!r}"
        for switch in nb.switches
        for port in switch.ports
        if port.name in switch_ports and port.uuid not in own
    ]
    for what in taken:
        found.add(
            "name-in-use",
            f"there is a {what} that is not this deployment's; remove it or give the UDN another name",
            "name",
            conflict=True,
        )


def check_neighbours(
    gateways: Iterable[Interface], nb: NbView, switch_uuid: str | None, own: set[str], found: Findings
) -> None:
    """No inner gateway address may be held by another router port or a VM of the switch."""
    ports = _ports_of(switch_uuid, nb, own)
    networks_of = {port.name: port.networks for router in nb.routers for port in router.ports}
    held: dict[Address, str] = {}
    for port in ports:
        for address in _addresses_of(port, networks_of):
            held[address] = port.name
    for gateway in gateways:
        if gateway.ip in held:
            found.add(
                "gateway-address-in-use",
                f"gateway address {gateway.ip} is held by port {held[gateway.ip]!r} of the switch; "
                "name another one",
                "gateway_addresses",
                conflict=True,
            )


def _addresses_of(port: PortView, networks_of: dict[str, tuple[str, ...]]) -> Iterable[Address]:
    texts: list[str] = [word for entry in port.addresses for word in entry.split()[1:]]
    if port.type == "router":
        texts += networks_of.get(port.options.get("router-port", ""), ())
    return [address for address in map(_address, texts) if address is not None]


def check_subnets_of_others(
    request: UdnRequest, switch_uuid: str | None, nb: NbView, own: set[str], found: Findings
) -> None:
    """Two UDNs on one switch may not have overlapping subnets: nothing could tell their VMs apart. Their
    routers are found on the switch itself, so UDNs of other deployments count, and the UDN that owns it."""
    ports = _ports_of(switch_uuid, nb, own)
    facing = {port.options.get("router-port", "") for port in ports if port.type == "router"}
    for router in nb.routers:
        if router.uuid in own or OWNER_MARK not in router.external_ids:
            continue
        udn = router.external_ids.get(UDN_MARK, router.name)
        theirs = [_network(text) for p in router.ports if p.name in facing for text in p.networks]
        for mine, other in product(request.subnets, theirs):
            if other is not None and addresses.overlap(mine, other):
                words = f"subnet {mine} overlaps {other} of UDN {udn!r} on the same switch"
                found.add("subnets-overlap", words, "subnets", conflict=True)


def _ports_of(switch_uuid: str | None, nb: NbView, own: set[str]) -> list[PortView]:
    """The ports of the UDN's switch that are not its own."""
    return [
        port
        for switch in nb.switches
        if switch.uuid == switch_uuid or (switch_uuid is None and switch.uuid in own)
        for port in switch.ports
        if port.uuid not in own
    ]
