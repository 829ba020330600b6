"""One step of the machine. Pure: the same run, event and time always give the same step."""

from __future__ import annotations

from dataclasses import replace

from ovnmig.core import legs
from ovnmig.core.effects import Commit, CommitKind
from ovnmig.core.events import CopyObserved, Event
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.run import STORY_LINES, Run, Step, staged
from ovnmig.core.states import State
from ovnmig.core.transitions import TABLE


class IllegalTransition(Exception):
    """An event came that cannot happen in this state: a defect of the engine. The text tells the story so
    far."""

    def __init__(self, run: Run, event: Event) -> None:
        lines = "\n  ".join(run.story) or "(nothing before)"
        super().__init__(f"{type(event).__name__} cannot happen in {run.state.value}; so far:\n  {lines}")
        self.run = run
        self.event = event


def start(record: MigrationRecord, router: str, now: float) -> Step:
    """Begin a migration that passed the preflight: the prepare transaction is its first and only order."""
    run = Run(record, State.REQUESTED, router)
    prepared = replace(staged(record, State.PREPARING, now), nb_transactions=record.nb_transactions + 1)
    return Step(run, (Commit(CommitKind.PREPARE, prepared),), "requested")


def resume(record: MigrationRecord, router: str) -> Run:
    """A run for a record found in the database; its first event must be Recovered."""
    return Run(record, State.RESUMED, router)


def advance(run: Run, event: Event, now: float) -> Step:
    """What an event makes of a run. Raises IllegalTransition where the table has no row for it."""
    for row in TABLE.get((run.state, type(event)), ()):
        if row.when is None or row.when(run, event):
            break
    else:
        raise IllegalTransition(run, event)
    outcome = row.do(run, event, now)
    stays = row.target is run.state
    line = f"{now:.3f} {run.state.value} + {type(event).__name__} -> {row.target.value}: {row.says}"
    after = Run(
        record=_moved(run.record, outcome.record, stays, row.target, now),
        state=row.target,
        router=run.router,
        misses=(run.misses if stays else 0) + outcome.missed,
        port_lost=run.port_lost or (isinstance(event, CopyObserved) and legs.port_failed(event.statuses)),
        story=(*run.story, line)[-STORY_LINES:],
    )
    return Step(after, outcome.effects, row.says)


def _moved(
    before: MigrationRecord, after: MigrationRecord, stays: bool, state: State, now: float
) -> MigrationRecord:
    """The record in its new state. What it waited for before is over, unless the row's action said something
    new."""
    fresh = stays or after.waits_for != before.waits_for
    return replace(staged(after, state, now), waits_for=after.waits_for if fresh else "")
