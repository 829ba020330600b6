"""What the machine orders. Every effect but Answer is answered by exactly one event, named in its
docstring.

All of them are idempotent. ``after_s`` delays the order: a retry is the same order given again, later.
Leaving a state withdraws the orders given in it: the engine drops their answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord


class CommitKind(StrEnum):
    """What a transaction does beside writing the record."""

    RECORD = "record"
    PREPARE = "prepare"
    SWITCH = "switch"
    CLOSE = "close"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class Commit:
    """One Northbound transaction that writes ``record``. Answered by Committed or CommitFailed, before any
    other event."""

    kind: CommitKind
    record: MigrationRecord


@dataclass(frozen=True, slots=True)
class ObserveTarget:
    """Ask SB and the target's agent whether traffic could arrive. Answered by TargetObserved."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Copy:
    """Start the legs named (harmless when they run), then look at all forward legs. Answered by
    CopyObserved."""

    start: tuple[Leg, ...] = ()
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Arm:
    """Arm the announcement on the target. Answered by Armed."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finish:
    """Final delta of every forward leg. Answered by Finished."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ObserveOwner:
    """Look who owns the gateway in SB. Answered by OwnerObserved."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Overlap:
    """Have the target replicate back, look at all legs and the owner. Answered by OverlapObserved."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class EndTransfers:
    """End every leg and disarm, then look at SB. Answered by TransfersEnded, also when an agent is out of
    reach."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WatchArrival:
    """Watch SB until the VM is on the target; outlives states. Answered by VmArrived, or never."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to the person whose order is being handled. ``unavailable``: the database could not record the
    order."""

    accepted: bool
    words: str
    unavailable: bool = False


Effect = (
    Commit
    | ObserveTarget
    | Copy
    | Arm
    | Finish
    | ObserveOwner
    | Overlap
    | EndTransfers
    | WatchArrival
    | Answer
)
