"""A migration as data: the request, the record kept in the Northbound database, its states and the phases
people see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ovnmig.core.transfer import Counts
from ovnmig.core.udn import Member


class Phase(StrEnum):
    """What REST and the CLI show."""

    REQUESTED = "requested"
    PREPARING = "preparing"
    COPYING = "copying"
    READY = "ready"
    SWITCHING = "switching"
    CONVERGING = "converging"
    COMPLETED = "completed"
    ROLLING_BACK = "rolling-back"
    ROLLED_BACK = "rolled-back"
    FAILED = "failed"


ENDED = frozenset({Phase.COMPLETED, Phase.ROLLED_BACK, Phase.FAILED})
"""Phases in which a migration holds nothing any more."""


class Trigger(StrEnum):
    """What starts the switch: the VM's arrival seen in SB, or an operator's order."""

    AUTO = "auto"
    MANUAL = "manual"


class Binding(StrEnum):
    """Who writes ``requested-chassis`` of the VM's port: ovnmig, or the CMS (then ovnmig only watches)."""

    OVNMIG = "ovnmig"
    EXTERNAL = "external"


class TransferMode(StrEnum):
    """``none`` moves the gateway without any entries: sessions break; for controls and tests."""

    FULL = "full"
    NONE = "none"


OVERLAP_S = 60.0
"""How long both nodes keep the sessions after a switch, unless the request says otherwise."""


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """What a caller asks for. ``port`` is the VM's logical switch port, ``None`` when only the gateway moves.

    ``gateway``: whether the gateway moves too; ``None`` follows the UDN's policy. ``overlap_s``: how long
    both nodes keep the sessions after the switch.
    """

    udn: str
    target: str
    port: str | None = None
    binding: Binding = Binding.EXTERNAL
    trigger: Trigger = Trigger.AUTO
    transfer: TransferMode = TransferMode.FULL
    overlap_s: float = OVERLAP_S
    gateway: bool | None = None
    idempotency_key: str | None = None
    allow_interruption: bool = False
    """The operator's word that a lone gateway may be gone for about a second: OVN drops the port while BFD
    with its first standby comes up."""


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """Everything a controller with no memory needs to go on. Times are Unix seconds.

    ``source`` is the gateway's owner when the migration began, ``port_source`` the VM's chassis then (empty:
    unbound). ``members_before`` and ``port_options_before`` are what a rollback restores.
    """

    id: str
    udn: str
    target: str
    source: str
    port: str | None
    port_source: str
    moves_gateway: bool
    binding: Binding
    trigger: Trigger
    transfer: TransferMode
    overlap_s: float
    phase: Phase
    created_at: float
    phase_since: float
    idempotency_key: str | None = None
    members_before: tuple[Member, ...] = ()
    port_options_before: Mapping[str, str] = field(default_factory=dict)
    nb_cfg: int = 0
    """NB configuration number bumped by the prepare transaction; the target must have installed it."""
    nb_transactions: int = 0
    """Effect transactions so far (at most 3); record-only commits do not count."""
    arrived: bool = False
    """SB showed the VM activated or bound on the target."""
    arrived_early: bool = False
    """It arrived before ``ready``: its own port zone may have come too late."""
    switch_ordered: bool = False
    cancel_ordered: bool = False
    switched_at: float | None = None
    """When the switch transaction was committed; ``None`` before: a rollback is still possible."""
    overlap_ended: bool = False
    """A newer request ended the overlap early."""
    ended_at: float | None = None
    waits_for: str = ""
    reason: str = ""
    counts: Counts = field(default_factory=Counts)
    unmoved: tuple[str, ...] = ()
    """Entries that could not be moved, in words with the reason: the first ones, ``counts`` has all."""
    phase_times: tuple[tuple[Phase, float], ...] = ()
    """When each phase was entered, oldest first; a phase may come twice (``copying`` after a lost
    transfer)."""
    owner: str = ""
    """Who owned the gateway when last observed after the switch; empty before, or when nobody did."""
    warnings: tuple[str, ...] = ()
    """What a person should know although the migration goes on (``transfer: none``, a leg that could not be
    copied)."""
