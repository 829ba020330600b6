"""When a state has lasted too long: the machine says when it wants to be called next."""

from __future__ import annotations

from dataclasses import dataclass

from ovnmig.core.migration import MigrationRecord, Trigger
from ovnmig.core.run import Run
from ovnmig.core.states import State


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each phase may last, in seconds. A manual ``ready`` has no limit; the overlap is the request's
    own."""

    preparing_s: float = 60.0
    copying_s: float = 120.0
    ready_s: float = 600.0
    switching_s: float = 10.0


def deadline(run: Run, limits: Limits) -> float | None:
    """Unix time at which DeadlinePassed is due in the present state, or ``None``."""
    record = run.record
    since = record.phase_since
    match run.state:
        case State.PREPARING:
            return since + limits.preparing_s
        case State.COPYING:
            return since + limits.copying_s
        case State.READY:
            return None if record.trigger is Trigger.MANUAL else since + limits.ready_s
        case State.ARMING | State.FINISHING:
            return since + limits.switching_s
        case State.SETTLING:
            return _switched_at(record) + limits.switching_s
        case State.CONVERGING:
            return _switched_at(record) + record.overlap_s
        case _:
            return None


def _switched_at(record: MigrationRecord) -> float:
    """The switch's time; a record that was switched without one is a contradiction, counted from its
    phase."""
    return record.phase_since if record.switched_at is None else record.switched_at
