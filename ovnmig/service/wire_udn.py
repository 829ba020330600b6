"""Wire models of UDNs and their gateways."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ovnmig.core.migration import OVERLAP_S
from ovnmig.core.replication import CopyState, Standby
from ovnmig.core.udn import Policy, Replication, UdnRequest
from ovnmig.engine.protocols import UdnState
from ovnmig.service import examples
from ovnmig.service.fields import (
    AddressField,
    AnswerModel,
    InterfaceField,
    NameField,
    NetworkField,
    OverlapField,
    PortRangeField,
    RequestModel,
    SnatZoneField,
    StandbyCountField,
    SwitchField,
    UdnNameField,
    write_port_range,
)

MANY = 64
"""Subnets and addresses of a UDN: each is compared with every other, here and in the database."""
MANY_CHASSIS = 1000
_ONCE: dict[str, Any] = {"uniqueItems": True}
"""The core refuses what is named twice, and says which; the schema tells it ahead."""


class UdnFields(RequestModel):
    """The desired state of a UDN's gateway. What is left out or null is chosen, explained in the answer."""

    subnets: list[NetworkField] = Field(
        min_length=1,
        max_length=MANY,
        description="inner subnets, IPv4 and IPv6 alike",
        json_schema_extra=_ONCE,
    )
    vips: list[InterfaceField] = Field(
        min_length=1,
        max_length=MANY,
        description="egress addresses; one per family used inside",
        json_schema_extra=_ONCE,
    )
    physical_network: NameField
    nexthops: list[AddressField] = Field(
        default=[],
        max_length=MANY,
        description="default gateways on the external subnet; one per family",
        json_schema_extra=_ONCE,
    )
    switch: NameField | None = Field(
        default=None,
        description="logical switch to attach to; with create_switch the UDN's name is the default",
    )
    create_switch: SwitchField = Field(
        default=False, description="create the switch instead of attaching to one"
    )
    gateway_addresses: list[InterfaceField] | None = Field(
        default=None,
        max_length=MANY,
        description="inner router addresses; default: the first host of each subnet",
    )
    vlan: Annotated[int, Field(strict=True, ge=1, le=4094)] | None = None
    port_range: PortRangeField | None = None
    snat_zone: SnatZoneField | None = None
    policy: Policy = Field(default=Policy.FOLLOW, description="'follow' the anchor VM, or stay 'pinned'")
    anchor: NameField | None = Field(default=None, description="port of the VM that the gateway follows")
    standby_count: StandbyCountField = 1
    chassis: list[NameField] = Field(
        default=[],
        max_length=MANY_CHASSIS,
        description="the only candidates, in order of preference; empty: all eligible chassis",
        json_schema_extra=_ONCE,
    )
    replication: Replication = Field(
        default=Replication.NONE,
        description="'continuous': standbys hold the sessions all the time, which survive a crash",
    )

    def to_core(self, name: str) -> UdnRequest:
        """The core's request for a UDN of that name."""
        return UdnRequest(
            name=name,
            subnets=tuple(self.subnets),
            vips=tuple(self.vips),
            physical_network=self.physical_network,
            nexthops=tuple(self.nexthops),
            switch=self.switch,
            create_switch=self.create_switch,
            gateway_addresses=None if self.gateway_addresses is None else tuple(self.gateway_addresses),
            vlan=self.vlan,
            port_range=self.port_range,
            snat_zone=self.snat_zone,
            policy=self.policy,
            anchor=self.anchor,
            standby_count=self.standby_count,
            chassis=tuple(self.chassis),
            replication=self.replication,
        )


class UdnCreate(UdnFields):
    """POST /v1/udns."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.UDN_CREATE]})

    name: UdnNameField


class UdnChange(UdnFields):
    """PUT /v1/udns/{name}: the full new state; fields left out fall back to their defaults."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.UDN_CHANGE]})

    name: UdnNameField | None = Field(default=None, description="may be repeated; renaming is not possible")


class MemberAnswer(AnswerModel):
    """A candidate of the HA set; the highest priority whose BFD is up owns the gateway."""

    chassis: str
    priority: int


class StandbyAnswer(AnswerModel):
    """The copy of the sessions on one standby."""

    chassis: str
    state: CopyState
    pending: int = Field(description="entries on their way")
    synced_at: datetime | None = Field(description="when the standby last confirmed everything sent before")
    refused: int = Field(description="entries that the standby refuses")
    lost: int = Field(description="entries that the standby's kernel took and does not have")
    put_back: int = Field(description="copies that had vanished there and were sent again")
    reason: str


class UdnAnswer(AnswerModel):
    """A UDN as it is wanted (spec) and as it is (owner, drift, migration)."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.UDN]})

    name: str
    switch: str
    switch_owned: bool = Field(description="True: ovnmig created the switch and deletes it with the UDN")
    subnets: list[str]
    gateway_addresses: list[str]
    vips: list[str]
    nexthops: list[str]
    physical_network: str
    vlan: int | None
    port_range: str | None
    snat_zone: int | None = Field(description="null: snat-ct-zone is unset, zones differ per chassis")
    inner_mac: str
    external_mac: str
    policy: Policy
    anchor: str | None
    standby_count: int
    chassis: list[str]
    replication: Replication
    standbys: list[StandbyAnswer] = Field(
        description="each standby's copy, as the leader last saw it; empty without replication"
    )
    epoch: int
    owner: str = Field(description="chassis that owns the gateway now; empty: unclaimed")
    router: str
    protected: bool = Field(description="True: the gateway survives the death of its node")
    members: list[MemberAnswer]
    placement: dict[str, str] = Field(description="why each chassis was chosen or not")
    drift: list[str] = Field(description="differences between the rows and the spec; empty: none")
    migration: str | None = Field(description="id of the migration in flight")
    changed: bool = Field(description="False: the request was already fulfilled, nothing was written")


class UdnList(AnswerModel):
    """All UDNs of this deployment."""

    udns: list[UdnAnswer]


class GatewayAnswer(AnswerModel):
    """Who owns a UDN's gateway."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.GATEWAY]})

    udn: str
    owner: str
    router: str
    vips: list[str]
    protected: bool
    members: list[MemberAnswer]
    migration: str | None


class GatewayMove(RequestModel):
    """PUT /v1/udns/{name}/gateway: move the gateway by hand, sessions included."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.GATEWAY_MOVE]})

    target: NameField
    overlap_s: OverlapField = OVERLAP_S
    allow_interruption: SwitchField = Field(
        default=False,
        description="a lone gateway may be gone for about a second while its first standby comes up",
    )


def _texts(values: tuple[Any, ...]) -> list[str]:
    return [str(v) for v in values]


def _members(state: UdnState) -> list[MemberAnswer]:
    ordered = sorted(state.placement.members, reverse=True)
    return [MemberAnswer(chassis=m.chassis, priority=m.priority) for m in ordered]


def _standby(one: Standby) -> StandbyAnswer:
    return StandbyAnswer(
        chassis=one.chassis,
        state=one.state,
        pending=one.pending,
        synced_at=None if one.synced_at is None else datetime.fromtimestamp(one.synced_at, UTC),
        refused=one.refused,
        lost=one.lost,
        put_back=one.put_back,
        reason=one.reason,
    )


def udn_answer(state: UdnState) -> UdnAnswer:
    """The wire form of a UDN."""
    spec = state.spec
    return UdnAnswer(
        name=spec.name,
        switch=spec.switch,
        switch_owned=spec.switch_uuid is None,
        subnets=_texts(spec.subnets),
        gateway_addresses=_texts(spec.gateway_addresses),
        vips=_texts(spec.vips),
        nexthops=_texts(spec.nexthops),
        physical_network=spec.physical_network,
        vlan=spec.vlan,
        port_range=write_port_range(spec.port_range),
        snat_zone=spec.snat_zone,
        inner_mac=spec.inner_mac,
        external_mac=spec.external_mac,
        policy=spec.policy,
        anchor=spec.anchor,
        standby_count=spec.standby_count,
        chassis=list(spec.chassis),
        replication=spec.replication,
        standbys=[_standby(one) for one in state.replication],
        epoch=state.epoch,
        owner=state.owner,
        router=state.router,
        protected=state.protected,
        members=_members(state),
        placement=dict(sorted(state.placement.reasons.items())),
        drift=list(state.drift),
        migration=state.migration,
        changed=state.changed,
    )


def gateway_answer(state: UdnState) -> GatewayAnswer:
    """The wire form of a UDN's gateway."""
    return GatewayAnswer(
        udn=state.spec.name,
        owner=state.owner,
        router=state.router,
        vips=_texts(state.spec.vips),
        protected=state.protected,
        members=_members(state),
        migration=state.migration,
    )
