"""The machine's value while a migration runs, and the shape of one step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ovnmig.core.effects import Effect
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.states import ENDED_STATES, PHASE_OF, State

MAX_MISSES = 3
"""With so many failed observations or orders in one state an agent counts as dead."""
RETRY_S = 1.0
"""Pause before an order is given again after it failed."""
STORY_LINES = 60


@dataclass(frozen=True, slots=True)
class Run:
    """A migration in this process. Only ``record`` is ever written down; the rest is found again by looking.

    ``router`` is the gateway router's name. ``misses`` counts failures in this state; ``port_lost``: the
    VM's own zone could not be moved and is not tried again. ``story`` holds the
    last transitions in words, for the exception of an illegal one and for people.
    """

    record: MigrationRecord
    state: State
    router: str
    misses: int = 0
    port_lost: bool = False
    story: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a row's action makes of a run, before the row's target state is applied."""

    record: MigrationRecord
    effects: tuple[Effect, ...] = ()
    missed: bool = False
    """The observation or order failed; counted until the state is left."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one event: the new run, what to do now (commits first), and the row's sentence for the
    journal."""

    run: Run
    effects: tuple[Effect, ...]
    says: str


def staged(record: MigrationRecord, state: State, now: float) -> MigrationRecord:
    """The record as it reads in ``state``: phase and times follow the state, ends are stamped."""
    phase = PHASE_OF[state]
    if phase is None or phase is record.phase:
        return record
    return replace(
        record,
        phase=phase,
        phase_since=now,
        phase_times=(*record.phase_times, (phase, now)),
        waits_for="",
        ended_at=now if state in ENDED_STATES else record.ended_at,
    )
