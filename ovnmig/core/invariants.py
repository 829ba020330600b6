"""What must hold for every run and every step, checked in tests and at run time. Answers are problems in
words."""

from __future__ import annotations

from collections.abc import Iterator

from ovnmig.core import legs
from ovnmig.core.effects import Commit, CommitKind, EndTransfers
from ovnmig.core.events import Event, Finished
from ovnmig.core.migration import MigrationRecord, Phase
from ovnmig.core.run import Run, Step
from ovnmig.core.states import COMMIT_STATES, ENDED_STATES, PHASE_OF, SWITCHED_STATES, State

MAX_TRANSACTIONS = 3
_AFTER_SWITCH = frozenset({Phase.SWITCHING, Phase.CONVERGING, Phase.COMPLETED, Phase.FAILED})


def record_problems(record: MigrationRecord) -> tuple[str, ...]:
    """What is wrong with a record, wherever it comes from."""
    return tuple(_record_problems(record))


def _record_problems(record: MigrationRecord) -> Iterator[str]:
    if record.nb_transactions > MAX_TRANSACTIONS:
        yield f"{record.nb_transactions} effect transactions; {MAX_TRANSACTIONS} are the limit"
    if record.switched_at is not None and record.phase not in _AFTER_SWITCH:
        yield f"switched, and yet {record.phase.value}"
    if record.switched_at is None and record.phase in (Phase.CONVERGING, Phase.COMPLETED):
        yield f"{record.phase.value} without a switch"
    ended = record.phase in (Phase.COMPLETED, Phase.ROLLED_BACK, Phase.FAILED)
    if ended != (record.ended_at is not None):
        yield f"{record.phase.value} with ended_at {record.ended_at}"
    if record.phase is Phase.FAILED and not record.reason:
        yield "failed without a reason"


def run_problems(run: Run) -> tuple[str, ...]:
    """What is wrong with a run."""
    problems = list(record_problems(run.record))
    phase = PHASE_OF[run.state]
    if phase is not None and run.record.phase is not phase:
        problems.append(f"in state {run.state.value} with phase {run.record.phase.value}")
    if run.state in SWITCHED_STATES and run.record.switched_at is None:
        problems.append(f"{run.state.value} without a switch")
    return tuple(problems)


def step_problems(before: Run, event: Event, step: Step) -> tuple[str, ...]:
    """What is wrong with a step: order of commits, entries before traffic, nothing removed before the
    take-over."""
    return (*run_problems(step.run), *_step_problems(before, event, step))


def _step_problems(before: Run, event: Event, step: Step) -> Iterator[str]:
    commits = [effect for effect in step.effects if isinstance(effect, Commit)]
    if bool(commits) != (step.run.state in COMMIT_STATES):
        yield f"{len(commits)} commits ordered in {step.run.state.value}"
    if commits and len(step.effects) > 1:
        yield "acts before it has written down"
    for commit in commits:
        yield from record_problems(commit.record)
        if commit.kind is CommitKind.SWITCH and not _entries_are_there(before, event):
            yield "switches before the entries are on the target"
        if commit.kind is CommitKind.RESTORE and before.record.switched_at is not None:
            yield "restores the rows after the switch"
    ends = any(isinstance(effect, EndTransfers) for effect in step.effects)
    if ends and step.run.state not in (State.ENDING, State.ROLLING_BACK):
        yield f"ends transfers in {step.run.state.value}"
    if before.state in ENDED_STATES and step.run.state is not before.state:
        yield f"left the end: {before.state.value} -> {step.run.state.value}"
    if before.record.switched_at is not None and step.run.record.switched_at != before.record.switched_at:
        yield "forgot the switch"


def _entries_are_there(before: Run, event: Event) -> bool:
    return isinstance(event, Finished) and legs.final(before.record, event.statuses)
