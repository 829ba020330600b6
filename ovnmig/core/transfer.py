"""The orders an agent takes and the answers it gives. Plain dataclasses, so that agent and driver share one
meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class ZoneKind(StrEnum):
    """Which conntrack zone of a router or port is meant."""

    SNAT = "snat"
    DNAT = "dnat"
    PORT = "port"


@dataclass(frozen=True, slots=True)
class ZoneRef:
    """A conntrack zone by name; every node resolves its own number for it.

    ``name`` is the router (snat, dnat) or the logical switch port (port). ``datapath`` is the router's
    Datapath_Binding UUID, the zone key's stem before OVN 23.06.1. ``required`` False: skipped where either
    side has no such zone.
    """

    kind: ZoneKind
    name: str
    datapath: str = ""
    required: bool = True

    @property
    def key(self) -> str:
        """The wire name of this zone, equal on every node."""
        return f"{self.kind.value}:{self.name}"


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the entries of a transfer. ``refused`` counts by reason (``{"port-taken": 1}``);
    ``kinds`` counts the entries read by protocol and family (``{"tcp/4": 10}``). ``lost``: read on the
    source, in the target at no time."""

    read: int = 0
    created: int = 0
    identical: int = 0
    replaced: int = 0
    lost: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)

    @property
    def refused_total(self) -> int:
        """All refused entries, whatever the reason."""
        return sum(self.refused.values())


@dataclass(frozen=True, slots=True)
class Peer:
    """The agent a transfer streams to: its chassis (its certificate must name it), address and stream
    port."""

    chassis: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Gate:
    """The gateway as its provider bridge knows it: MAC address of its port, and its localnet port."""

    mac: str
    localnet_port: str


class TransferState(StrEnum):
    """Where a transfer stands on its source agent."""

    CONNECTING = "connecting"
    COPYING = "copying"
    IN_STEP = "in-step"
    FINAL = "final"
    """The final delta is acknowledged; only entries born since are still sent on (a dying stray must not kill
    the live one)."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TransferOrder:
    """Order to the source agent: send these zones to ``peer`` and stay in step. Repeating the same id is
    harmless.

    ``epoch`` is the record's epoch at the order: an agent refuses an order of a lower epoch for the same UDN.
    ``keep``: a standing transfer. It stays in step for good, is mended for as long as it takes, and what is
    not on the source any more leaves the target too, also after a break. A target that owns the gateway
    itself refuses it. ``migration`` is the id of the migration it is part of (none: a standing transfer),
    ``deployment`` whose controller gave it: by these an order nobody asks for any more is found. ``gate``:
    from the final delta on, for some seconds, no TCP connection is opened through this gateway of the source;
    clients try again and meet the target's.
    """

    id: str
    udn: str
    epoch: int
    peer: Peer
    zones: tuple[ZoneRef, ...]
    keep: bool = False
    migration: str = ""
    deployment: str = ""
    gate: Gate | None = None

    def same_work(self, other: TransferOrder) -> bool:
        """Whether both ask for the same, whoever gave them and when."""
        return replace(self, epoch=0, migration="", deployment="") == replace(
            other, epoch=0, migration="", deployment=""
        )


@dataclass(frozen=True, slots=True)
class TransferStatus:
    """Answer about a transfer. ``refused_entries`` names up to 100 refused entries in words; ``reason`` is
    set on FAILED, and while a broken connection is mended."""

    id: str
    state: TransferState
    counts: Counts
    rounds: int = 0
    pending: int = 0
    """Entries sent but not yet acknowledged, plus those known to differ."""
    reason: str = ""
    refused_entries: tuple[str, ...] = ()
    synced_s: float | None = None
    """Seconds since the target last confirmed everything sent before; ``None``: not yet."""
    put_back: int = 0
    """Copies that had vanished from the target and were sent again."""


@dataclass(frozen=True, slots=True)
class AnnounceOrder:
    """Order to the target agent: when the DGP is claimed here *and* its flows are in, announce through the
    patch port.

    ``addresses`` are the VIPs as text without prefix, ``mac`` the DGP's. ``localnet_port`` is the localnet
    LSP's name, from which the patch port between provider bridge and br-int is found
    (``external_ids:ovn-localnet-port``). ``migration`` and ``deployment`` as in :class:`TransferOrder`.
    """

    id: str
    udn: str
    epoch: int
    chassis_redirect_port: str
    localnet_port: str
    mac: str
    addresses: tuple[str, ...]
    vlan: int | None = None
    migration: str = ""
    deployment: str = ""

    def same_work(self, other: AnnounceOrder) -> bool:
        """Whether both ask for the same, whoever gave them and when."""
        return replace(self, epoch=0, migration="", deployment="") == replace(
            other, epoch=0, migration="", deployment=""
        )


class AnnounceState(StrEnum):
    """Where an armed announcement stands."""

    ARMED = "armed"
    ANNOUNCED = "announced"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AnnounceStatus:
    """Answer about an announcement. ``announced_at`` is the agent's wall clock in Unix seconds."""

    id: str
    state: AnnounceState
    announced_at: float | None = None
    reason: str = ""


class OrderKind(StrEnum):
    """What an agent holds until it is told to stop."""

    TRANSFER = "transfer"
    ANNOUNCEMENT = "announcement"


@dataclass(frozen=True, slots=True)
class HeldOrder:
    """An order that an agent holds. ``age_s``: seconds since it was given. ``target``: the chassis a transfer
    sends to. ``migration`` and ``deployment`` are empty where the order did not name them."""

    kind: OrderKind
    id: str
    udn: str
    epoch: int
    age_s: float
    migration: str = ""
    deployment: str = ""
    target: str = ""
    keep: bool = False


@dataclass(frozen=True, slots=True)
class ReadinessOrder:
    """Question to an agent: could traffic of these zones arrive here now?"""

    zones: tuple[ZoneRef, ...] = ()
    peers: tuple[str, ...] = ()
    """Chassis whose tunnels from here must have BFD up."""
    physical_network: str = ""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the node itself observes. ``zones``: wire name -> number for those present in br-int
    ``external_ids`` (absent keys are not importable yet). ``bfd``: peer chassis -> ``up``, ``down``,
    ``init``, ``admin_down`` or ``off`` (no BFD on that tunnel). ``bfd_flaps``: how often BFD towards the peer
    went up or down since it was switched on; 0: it has never been up."""

    zones: Mapping[str, int]
    bfd: Mapping[str, str]
    uplink: str = ""
    """Empty when the physical network's bridge exists and is up, else what is wrong with it, in words."""
    entries: int = 0
    entries_max: int = 0
    zone_entries: Mapping[str, int] = field(default_factory=dict)
    bfd_flaps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """An agent about itself. ``problems`` are in words, empty when all is well."""

    chassis: str
    version: str
    kernel: str
    ovs_version: str
    entries: int
    entries_max: int
    transfers: int
    stream_port: int
    problems: tuple[str, ...] = ()
