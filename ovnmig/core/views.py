"""Immutable pictures of the Northbound and Southbound databases, as the drivers read them in one go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ovnmig.core.rows import ColumnValue


@dataclass(frozen=True, slots=True)
class PortView:
    """A logical switch port. ``addresses`` as in NB (``"MAC IP..."``, ``"router"``, ``"unknown"``)."""

    uuid: str
    name: str
    type: str
    addresses: tuple[str, ...]
    options: Mapping[str, str]
    external_ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SwitchView:
    """A logical switch with its ports."""

    uuid: str
    name: str
    ports: tuple[PortView, ...]
    external_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RouterPortView:
    """A logical router port; ``networks`` as text (``"172.16.1.100/24"``)."""

    uuid: str
    name: str
    mac: str
    networks: tuple[str, ...]
    gateway_chassis: tuple[tuple[str, int], ...]
    has_ha_chassis_group: bool


@dataclass(frozen=True, slots=True)
class NatView:
    """A NAT row of a router."""

    uuid: str
    type: str
    external_ip: str
    logical_ip: str


@dataclass(frozen=True, slots=True)
class RouterView:
    """A logical router with its ports and NAT rows."""

    uuid: str
    name: str
    options: Mapping[str, str]
    external_ids: Mapping[str, str]
    ports: tuple[RouterPortView, ...]
    nats: tuple[NatView, ...]


@dataclass(frozen=True, slots=True)
class OwnedRow:
    """A row that carries this deployment's marks. ``columns`` holds the columns ovnmig sets, in
    :data:`ColumnValue` form."""

    uuid: str
    udn: str
    role: str
    table: str
    columns: Mapping[str, ColumnValue]
    parent_uuid: str | None


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A UDN's record row: the stored document (JSON text) and the epoch every later transaction must
    verify."""

    uuid: str
    udn: str
    epoch: int
    document: str


@dataclass(frozen=True, slots=True)
class NbView:
    """The Northbound database at one instant."""

    switches: tuple[SwitchView, ...] = ()
    routers: tuple[RouterView, ...] = ()
    owned: tuple[OwnedRow, ...] = ()
    records: tuple[RecordRow, ...] = ()
    nb_cfg: int = 0
    load_balancer_vips: frozenset[str] = frozenset()
    """Addresses (text, without port) that some load balancer answers for."""

    def record(self, udn: str) -> RecordRow | None:
        """The record row of ``udn``, or ``None``."""
        return next((r for r in self.records if r.udn == udn), None)


@dataclass(frozen=True, slots=True)
class ChassisView:
    """A chassis as SB has it. ``name`` is the system-id; ``physical_networks`` come from
    ``ovn-bridge-mappings``."""

    name: str
    hostname: str
    encap_ips: tuple[str, ...]
    physical_networks: frozenset[str]
    gateway_preferred: bool
    """``ovn-cms-options`` contains ``enable-chassis-as-gw``."""
    nb_cfg: int = 0
    """``Chassis_Private.nb_cfg``: the last NB configuration whose flows this chassis has installed."""


@dataclass(frozen=True, slots=True)
class BindingView:
    """A Port_Binding: who owns it. Chassis are names; empty string means unbound."""

    logical_port: str
    type: str
    chassis: str
    additional_chassis: tuple[str, ...]
    activated: tuple[str, ...]
    """``options:additional-chassis-activated``: chassis on which the activation strategy has let the port
    through."""
    up: bool
    datapath: str
    """UUID of the Datapath_Binding (the zone key's name before OVN 23.06.1)."""


@dataclass(frozen=True, slots=True)
class SbView:
    """The Southbound database at one instant."""

    chassis: tuple[ChassisView, ...] = ()
    bindings: tuple[BindingView, ...] = ()
    datapaths: Mapping[str, str] = field(default_factory=dict)
    """Router or switch name -> Datapath_Binding UUID."""

    def find_chassis(self, name: str) -> ChassisView | None:
        """The chassis of that system-id, or ``None``."""
        return next((c for c in self.chassis if c.name == name), None)

    def binding(self, logical_port: str) -> BindingView | None:
        """The binding of that port, or ``None``."""
        return next((b for b in self.bindings if b.logical_port == logical_port), None)
