"""From a request to a complete spec, or to every reason against it at once; nothing is touched either way."""

from __future__ import annotations

from ovnmig.core import addresses, names, placement
from ovnmig.core.conflicts import (
    Findings,
    address_users,
    check_names,
    check_neighbours,
    check_next_hops,
    check_subnets_of_others,
    check_vips_free,
)
from ovnmig.core.shape import check_shape
from ovnmig.core.switches import find_switch
from ovnmig.core.udn import Interface, Refused, UdnRequest, UdnSpec
from ovnmig.core.views import NbView, SbView
from ovnmig.core.zones import DEFAULT_ZONES, pick_zone

__all__ = ["DEFAULT_ZONES", "resolve"]


def resolve(
    request: UdnRequest,
    nb: NbView,
    sb: SbView,
    *,
    owner: str,
    current: UdnSpec | None = None,
    zone_range: tuple[int, int] = DEFAULT_ZONES,
) -> UdnSpec:
    """The complete spec for ``request``. Raises Refused with all problems found.

    ``current``: the spec the UDN has now (a change, not a creation): its switch, MACs, gateway addresses and
    zone stay unless the request says otherwise. ``zone_range``: conntrack zone numbers ovnmig may take, both
    ends included.
    """
    found = Findings()
    check_shape(request, found)
    if current is not None and current.name != request.name:
        found.add("name-changed", "a UDN cannot be renamed; delete it and create another", "name")
    switch, switch_uuid = find_switch(request, nb, current, found)
    gateways = _gateway_addresses(request, current)
    own = {row.uuid for row in nb.owned if row.udn == request.name}
    users = address_users(nb, own)
    check_names(request.name, nb, own, found)
    check_vips_free(request, nb, own, users, found)
    check_next_hops(request, nb, found)
    check_neighbours(gateways, nb, switch_uuid, own, found)
    check_subnets_of_others(request, switch_uuid, nb, own, found)
    zone = pick_zone(request, nb, own, current, owner, zone_range, found)
    _check_anchor(request, nb, switch_uuid, own, found)
    spec = UdnSpec(
        name=request.name,
        switch=switch,
        switch_uuid=switch_uuid,
        subnets=request.subnets,
        gateway_addresses=gateways,
        vips=request.vips,
        nexthops=request.nexthops,
        physical_network=request.physical_network,
        vlan=request.vlan,
        port_range=request.port_range,
        snat_zone=zone,
        inner_mac=current.inner_mac if current else names.mac(owner, request.name, "inner"),
        external_mac=current.external_mac if current else names.mac(owner, request.name, "external"),
        policy=request.policy,
        anchor=request.anchor,
        standby_count=request.standby_count,
        chassis=request.chassis,
        replication=request.replication,
    )
    _check_chassis(spec, sb, found)
    if found.problems:
        raise Refused(tuple(found.problems))
    return spec


def _gateway_addresses(request: UdnRequest, current: UdnSpec | None) -> tuple[Interface, ...]:
    if request.gateway_addresses is not None:
        return request.gateway_addresses
    if current is not None and current.subnets == request.subnets:
        return current.gateway_addresses
    return tuple(addresses.first_host(subnet) for subnet in request.subnets)


def _check_chassis(spec: UdnSpec, sb: SbView, found: Findings) -> None:
    for name in spec.chassis:
        if sb.find_chassis(name) is None:
            alias = next((c.name for c in sb.chassis if c.hostname == name), None)
            known = ", ".join(sorted(c.name for c in sb.chassis)) or "none"
            hint = f"the host of that name is chassis {alias!r}" if alias else f"known chassis: {known}"
            found.add("unknown-chassis", f"no chassis {name!r} in the Southbound database; {hint}", "chassis")
    if spec.physical_network and not placement.eligible(spec, sb):
        found.problems.append(placement.no_candidate(spec, sb))


def _check_anchor(
    request: UdnRequest, nb: NbView, switch_uuid: str | None, own: set[str], found: Findings
) -> None:
    if request.anchor is None:
        return
    switches = [s for s in nb.switches if s.uuid == switch_uuid or (switch_uuid is None and s.uuid in own)]
    ports = [port.name for switch in switches for port in switch.ports if port.type == ""]
    if request.anchor not in ports:
        known = ", ".join(sorted(ports)[:10]) or "none yet"
        found.add(
            "unknown-anchor",
            f"the UDN's switch has no VM port {request.anchor!r} (it has: {known}); "
            "leave the anchor out to follow the switch's only VM",
            "anchor",
        )
