"""Orders and questions to agents, built from the record and the UDN's spec."""

from __future__ import annotations

from ovnmig.core import legs
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.topology import gateway_names
from ovnmig.core.transfer import AnnounceOrder, Gate, Peer, ReadinessOrder, TransferOrder
from ovnmig.core.udn import UdnSpec


def transfer(
    plan: legs.LegPlan, record: MigrationRecord, spec: UdnSpec, epoch: int, host: str, stream_port: int
) -> TransferOrder:
    """The order to the leg's source agent. ``host``: the receiving chassis' encap address."""
    peer = Peer(plan.target, host, stream_port)
    gate = (
        Gate(spec.external_mac, gateway_names(spec).localnet_port) if plan.leg is legs.Leg.GATEWAY else None
    )
    return TransferOrder(plan.id, record.udn, epoch, peer, plan.zones, migration=record.id, gate=gate)


def readiness(record: MigrationRecord, spec: UdnSpec, datapath: str) -> ReadinessOrder:
    """Could the target take the gateway's traffic now, and is the VM plugged there?"""
    zones = legs.router_zones(gateway_names(spec).router, datapath) if record.moves_gateway else ()
    if record.port is not None:
        zones = (*zones, legs.port_zone(record.port))
    peers = (record.source,) if record.moves_gateway and record.source else ()
    return ReadinessOrder(zones, peers, spec.physical_network if record.moves_gateway else "")


def announcement(ident: str, spec: UdnSpec, epoch: int, migration: str = "") -> AnnounceOrder:
    """Announce every VIP of the UDN as soon as the gateway's port is claimed there and its flows are in.
    ``migration``: the id of the one it is part of; empty for a standing announcement."""
    named = gateway_names(spec)
    return AnnounceOrder(
        id=ident,
        udn=spec.name,
        epoch=epoch,
        chassis_redirect_port=named.chassis_redirect_port,
        localnet_port=named.localnet_port,
        mac=spec.external_mac,
        addresses=tuple(str(vip.ip) for vip in spec.vips),
        vlan=spec.vlan,
        migration=migration,
    )
