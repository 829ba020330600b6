"""What can happen to a migration: answers to effects, orders of people, time. All immutable, all in one
file."""

from __future__ import annotations

from dataclasses import dataclass, field

from ovnmig.core.legs import Statuses
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.transfer import Readiness


@dataclass(frozen=True, slots=True)
class Committed:
    """The transaction is in the database; ``record`` is what it wrote there. ``nb_cfg`` is the number after
    it."""

    record: MigrationRecord
    nb_cfg: int


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """Nothing was written (the driver's promise); ``reason`` in words."""

    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """A controller with no memory has read this record. ``nb_cfg`` is NB_Global's now: never lower than our
    own bump."""

    nb_cfg: int


@dataclass(frozen=True, slots=True)
class TargetObserved:
    """Answer to ObserveTarget. ``readiness`` is ``None`` with ``problem`` set when the agent did not
    answer."""

    nb_cfg: int
    readiness: Readiness | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CopyObserved:
    """Answer to Copy. ``port_zone_there``: the target has the VM's own zone, so the VM is plugged there.
    ``problem``: an agent did not answer; ``away``: SB did not, so that a leg could not be started."""

    statuses: Statuses = field(default_factory=dict)
    port_zone_there: bool = False
    problem: str = ""
    away: str = ""


@dataclass(frozen=True, slots=True)
class Armed:
    """Answer to Arm; ``problem`` empty when the target's agent will announce."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """Answer to Finish: where each forward leg stands after its final delta."""

    statuses: Statuses = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class OwnerObserved:
    """Answer to ObserveOwner: the gateway port's chassis in SB (empty: nobody), and whether the VM is on the
    target."""

    owner: str
    vm_on_target: bool


@dataclass(frozen=True, slots=True)
class OverlapObserved:
    """Answer to Overlap: both directions' legs and the gateway's owner; ``problem`` names a leg that does not
    run."""

    owner: str
    statuses: Statuses = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TransfersEnded:
    """Answer to EndTransfers, with what SB showed after it. ``problem``: an agent could not be told (it holds
    no rows). ``owner`` empty and ``vm_on_target`` ``None``: SB could not be read, what was seen last
    holds."""

    owner: str
    vm_on_target: bool | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class VmArrived:
    """SB shows the VM's port activated or bound on the target."""


@dataclass(frozen=True, slots=True)
class SwitchOrdered:
    """A person or orchestrator orders the switch now."""


@dataclass(frozen=True, slots=True)
class CancelOrdered:
    """A person or orchestrator gives the migration up."""


@dataclass(frozen=True, slots=True)
class NewRequest:
    """Another migration of this UDN is wanted."""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The deadline of the present state (:func:`ovnmig.core.deadlines.deadline`) has passed."""


Event = (
    Committed
    | CommitFailed
    | Recovered
    | TargetObserved
    | CopyObserved
    | Armed
    | Finished
    | OwnerObserved
    | OverlapObserved
    | TransfersEnded
    | VmArrived
    | SwitchOrdered
    | CancelOrdered
    | NewRequest
    | DeadlinePassed
)

EVENT_TYPES: tuple[type[Event], ...] = (
    Committed,
    CommitFailed,
    Recovered,
    TargetObserved,
    CopyObserved,
    Armed,
    Finished,
    OwnerObserved,
    OverlapObserved,
    TransfersEnded,
    VmArrived,
    SwitchOrdered,
    CancelOrdered,
    NewRequest,
    DeadlinePassed,
)
