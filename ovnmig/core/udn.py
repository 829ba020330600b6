"""What a UDN is to us: its desired spec, the members of its gateway's HA set, and the document kept in its
record row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network


class Policy(StrEnum):
    """Whether the gateway goes where its anchor VM goes, or stays until drained, crashed or moved by hand."""

    FOLLOW = "follow"
    PINNED = "pinned"


class Replication(StrEnum):
    """Whether the standbys of a gateway hold its sessions all the time, so that its node may die."""

    NONE = "none"
    CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True)
class UdnRequest:
    """What a caller asks for; everything left ``None`` is chosen by :func:`ovnmig.core.validate.resolve`.

    ``gateway_addresses`` are the inner router port's (default: the first host of each subnet). ``vips`` carry
    the prefix of the external subnet (``172.16.1.100/24``). ``snat_zone``: a number, ``None`` (choose one) or
    ``"off"`` (leave ``snat-ct-zone`` unset, zones then differ per chassis). ``chassis``: the only candidates
    allowed (empty: all eligible ones), in order of preference.
    """

    name: str
    subnets: tuple[Network, ...]
    vips: tuple[Interface, ...]
    physical_network: str
    nexthops: tuple[Address, ...] = ()
    switch: str | None = None
    create_switch: bool = False
    gateway_addresses: tuple[Interface, ...] | None = None
    vlan: int | None = None
    port_range: tuple[int, int] | None = None
    snat_zone: int | str | None = None
    policy: Policy = Policy.FOLLOW
    anchor: str | None = None
    standby_count: int = 1
    chassis: tuple[str, ...] = ()
    replication: Replication = Replication.NONE


@dataclass(frozen=True, slots=True)
class UdnSpec:
    """The resolved, complete desired state of a UDN's gateway; a pure function of it gives every row but the
    HA set.

    ``switch_uuid`` names the attached logical switch exactly (names may be ambiguous); ``None`` when we own
    the switch. MACs are lower-case ``xx:xx:xx:xx:xx:xx``. ``snat_zone`` ``None`` means the option is left
    unset.
    """

    name: str
    switch: str
    switch_uuid: str | None
    subnets: tuple[Network, ...]
    gateway_addresses: tuple[Interface, ...]
    vips: tuple[Interface, ...]
    nexthops: tuple[Address, ...]
    physical_network: str
    vlan: int | None
    port_range: tuple[int, int] | None
    snat_zone: int | None
    inner_mac: str
    external_mac: str
    policy: Policy
    anchor: str | None
    standby_count: int
    chassis: tuple[str, ...]
    replication: Replication = Replication.NONE


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One candidate of the gateway's HA set; the highest priority whose BFD is up owns the port."""

    priority: int
    chassis: str


@dataclass(frozen=True, slots=True)
class GatewayNames:
    """The names of a UDN's rows that agents and SB need (a zone is found by router name or datapath, never by
    number)."""

    router: str
    inner_port: str
    external_port: str
    external_switch: str
    localnet_port: str

    @property
    def chassis_redirect_port(self) -> str:
        """Name of the DGP's ``chassisredirect`` Port_Binding in SB (OVN's rule: ``cr-`` + LRP name)."""
        return f"cr-{self.external_port}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason a request is refused. ``code`` is stable and machine-readable, ``message`` says what to
    do."""

    code: str
    message: str
    field: str | None = None
    conflict: bool = False
    """True: the request is well-formed but something else holds what it wants (HTTP 409), else 422."""


class Refused(Exception):
    """A request was refused and no row was touched."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(p.message for p in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Placement:
    """The chosen HA set with the words that explain it, one per chassis considered."""

    members: tuple[Member, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
