"""The machine's states: finer than the phases people see, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ovnmig.core.migration import Phase


class State(StrEnum):
    """Where a migration stands. The ``*ING`` states marked *commit* wait for nothing but the answer of a
    transaction."""

    REQUESTED = "requested"
    """Commit: the prepare transaction is in flight; nothing of it is in the database before."""
    RESUMED = "resumed"
    """Read from the database by a controller with no memory; nothing is known about agents and SB yet."""
    PREPARING = "preparing"
    """The target is in the HA set but cannot take traffic yet: flows, zones, BFD or uplink are missing."""
    COPYING = "copying"
    """Entries are on their way to the target and not in step."""
    MARKING = "marking"
    """Commit: ``ready`` is being recorded."""
    READY = "ready"
    """The target is in step; the trigger is awaited."""
    ORDERING = "ordering"
    """Commit: the operator's switch is being recorded before it is answered."""
    ARMING = "arming"
    """The target's agent is told to announce as soon as it owns the port."""
    FINISHING = "finishing"
    """The final delta is on its way; the switch comes with its acknowledgement."""
    COMMITTING = "committing"
    """Commit: the switch transaction is in flight. The last instant before the point of no return."""
    SETTLING = "settling"
    """Switched in the database; SB does not show the target as owner yet."""
    CONVERGING = "converging"
    """Both nodes keep the sessions for the overlap, in both directions."""
    ENDING = "ending"
    """The overlap is over; transfers are being ended, before a node loses its zone."""
    CLOSING = "closing"
    """Commit: the HA set is trimmed and the record closed."""
    CANCELLING = "cancelling"
    """Commit: the cancel is being recorded before it is answered."""
    ROLLING_BACK = "rolling-back"
    """Transfers are being ended; after that the rows go back."""
    RESTORING = "restoring"
    """Commit: the rows as they were, where they are still ours."""
    COMPLETED = "completed"
    """The target owns the gateway and the record is closed."""
    ROLLED_BACK = "rolled-back"
    """All rows are as before; sessions never left the source."""
    FAILED = "failed"
    """A person is needed; the reason says for what."""


PHASE_OF: Mapping[State, Phase | None] = {
    State.REQUESTED: Phase.REQUESTED,
    State.RESUMED: None,
    State.PREPARING: Phase.PREPARING,
    State.COPYING: Phase.COPYING,
    State.MARKING: Phase.COPYING,
    State.READY: Phase.READY,
    State.ORDERING: Phase.READY,
    State.ARMING: Phase.SWITCHING,
    State.FINISHING: Phase.SWITCHING,
    State.COMMITTING: Phase.SWITCHING,
    State.SETTLING: Phase.SWITCHING,
    State.CONVERGING: Phase.CONVERGING,
    State.ENDING: Phase.CONVERGING,
    State.CLOSING: Phase.CONVERGING,
    State.CANCELLING: Phase.ROLLING_BACK,
    State.ROLLING_BACK: Phase.ROLLING_BACK,
    State.RESTORING: Phase.ROLLING_BACK,
    State.COMPLETED: Phase.COMPLETED,
    State.ROLLED_BACK: Phase.ROLLED_BACK,
    State.FAILED: Phase.FAILED,
}
"""What people see of each state; ``None`` keeps the phase the database had."""

COMMIT_STATES = frozenset(
    {
        State.REQUESTED,
        State.MARKING,
        State.ORDERING,
        State.COMMITTING,
        State.CLOSING,
        State.CANCELLING,
        State.RESTORING,
    }
)
"""A transaction is in flight: the engine hands in its answer before any other event."""

ENDED_STATES = frozenset({State.COMPLETED, State.ROLLED_BACK, State.FAILED})
"""Nothing is held any more."""

SWITCHED_STATES = frozenset({State.SETTLING, State.CONVERGING, State.ENDING, State.CLOSING})
"""After the switch transaction and before the end: there is no way back but a new migration."""
