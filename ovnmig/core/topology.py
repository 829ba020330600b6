"""The Northbound rows of a UDN's gateway: a pure function of its spec and the members of its HA set."""

from __future__ import annotations

from collections.abc import Iterator

from ovnmig.core import names
from ovnmig.core.rows import ColumnValue, Parent, Row
from ovnmig.core.udn import Address, GatewayNames, Member, UdnSpec

ROUTER = "router"
INNER_PORT = "inner-port"
INNER_LSP = "inner-lsp"
SWITCH = "switch"
EXTERNAL_SWITCH = "external-switch"
LOCALNET = "localnet"
EXTERNAL_PORT = "external-port"
EXTERNAL_LSP = "external-lsp"
GATEWAY_PREFIX = "gateway:"

_ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}


def gateway_names(spec: UdnSpec) -> GatewayNames:
    """The names of the rows that agents and SB need."""
    return names.gateway_names(spec.name)


def rows(spec: UdnSpec, members: tuple[Member, ...]) -> tuple[Row, ...]:
    """Every row the UDN is to own, parents first; the record row is the driver's.

    Raises ValueError when a subnet has no VIP of its family (:func:`ovnmig.core.validate.resolve` never makes
    such a spec).
    """
    return (
        *_router(spec),
        *_inner_side(spec),
        *_external_side(spec),
        *_routes(spec),
        *_nats(spec),
        *(_gateway_chassis(spec, member) for member in members),
    )


def _router(spec: UdnSpec) -> Iterator[Row]:
    # The zone must stand in the creating transaction: set later, every chassis would flush the new zone.
    options = {} if spec.snat_zone is None else {"snat-ct-zone": str(spec.snat_zone)}
    yield Row(ROUTER, "Logical_Router", {"name": gateway_names(spec).router, "options": options})


def _inner_side(spec: UdnSpec) -> Iterator[Row]:
    port = gateway_names(spec).inner_port
    advertise = any(address.version == 6 for address in spec.gateway_addresses)
    yield Row(
        INNER_PORT,
        "Logical_Router_Port",
        {
            "name": port,
            "mac": spec.inner_mac,
            "networks": tuple(str(address) for address in spec.gateway_addresses),
            "ipv6_ra_configs": {"address_mode": "slaac", "send_periodic": "true"} if advertise else {},
        },
        Parent("ports", role=ROUTER),
    )
    if spec.switch_uuid is None:
        yield Row(SWITCH, "Logical_Switch", {"name": spec.switch})
        parent = Parent("ports", role=SWITCH)
    else:
        parent = Parent("ports", uuid=spec.switch_uuid, table="Logical_Switch")
    yield _router_facing(INNER_LSP, port, {}, parent)


def _external_side(spec: UdnSpec) -> Iterator[Row]:
    named = gateway_names(spec)
    yield Row(EXTERNAL_SWITCH, "Logical_Switch", {"name": named.external_switch})
    yield Row(
        LOCALNET,
        "Logical_Switch_Port",
        {
            "name": named.localnet_port,
            "type": "localnet",
            "addresses": ("unknown",),
            "options": {"network_name": spec.physical_network},
            "tag": () if spec.vlan is None else (spec.vlan,),
        },
        Parent("ports", role=EXTERNAL_SWITCH),
    )
    # The port's own address is the VIP: OVN then announces it and answers for it whatever the version.
    yield Row(
        EXTERNAL_PORT,
        "Logical_Router_Port",
        {
            "name": named.external_port,
            "mac": spec.external_mac,
            "networks": tuple(str(vip) for vip in spec.vips),
            "ipv6_ra_configs": {},
        },
        Parent("ports", role=ROUTER),
    )
    yield _router_facing(
        EXTERNAL_LSP, named.external_port, {"nat-addresses": "router"}, Parent("ports", role=EXTERNAL_SWITCH)
    )


def _router_facing(role: str, router_port: str, options: dict[str, str], parent: Parent) -> Row:
    columns: dict[str, ColumnValue] = {
        "name": names.switch_port_name(router_port),
        "type": "router",
        "addresses": ("router",),
        "options": {"router-port": router_port, **options},
        "tag": (),
    }
    return Row(role, "Logical_Switch_Port", columns, parent)


def _routes(spec: UdnSpec) -> Iterator[Row]:
    for nexthop in spec.nexthops:
        yield Row(
            f"route:{nexthop.version}",
            "Logical_Router_Static_Route",
            {
                "ip_prefix": _ANYWHERE[nexthop.version],
                "nexthop": str(nexthop),
                "output_port": gateway_names(spec).external_port,
            },
            Parent("static_routes", role=ROUTER),
        )


def _nats(spec: UdnSpec) -> Iterator[Row]:
    vip_of = vips_by_family(spec)
    low_high = "" if spec.port_range is None else f"{spec.port_range[0]}-{spec.port_range[1]}"
    for subnet in spec.subnets:
        if subnet.version not in vip_of:
            raise ValueError(f"no IPv{subnet.version} VIP for {subnet}")
        # gateway_port stays empty: with one distributed gateway port OVN takes that one, in every version.
        yield Row(
            f"snat:{subnet}",
            "NAT",
            {
                "type": "snat",
                "external_ip": str(vip_of[subnet.version]),
                "logical_ip": str(subnet),
                "external_port_range": low_high,
            },
            Parent("nat", role=ROUTER),
        )


def _gateway_chassis(spec: UdnSpec, member: Member) -> Row:
    return Row(
        f"{GATEWAY_PREFIX}{member.chassis}",
        "Gateway_Chassis",
        {
            "name": names.gateway_chassis_name(gateway_names(spec).external_port, member.chassis),
            "chassis_name": member.chassis,
            "priority": member.priority,
        },
        Parent("gateway_chassis", role=EXTERNAL_PORT),
    )


def vips_by_family(spec: UdnSpec) -> dict[int, Address]:
    """IP version -> the VIP that sessions of this family leave with."""
    return {vip.version: vip.ip for vip in spec.vips}
