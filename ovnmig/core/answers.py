"""What the rows of the transition table do with orders of people: record them before they are answered, or
refuse."""

from __future__ import annotations

from dataclasses import replace

from ovnmig.core.actions import await_trigger
from ovnmig.core.effects import (
    Answer,
    Arm,
    Commit,
    CommitKind,
    EndTransfers,
    Finish,
)
from ovnmig.core.events import (
    CommitFailed,
    Committed,
    Event,
)
from ovnmig.core.run import RETRY_S, Outcome, Run, staged
from ovnmig.core.states import State
from ovnmig.core.wording import because


def record_order(run: Run, _event: Event, now: float) -> Outcome:
    """Write the order down before it is answered."""
    return Outcome(
        run.record, (Commit(CommitKind.RECORD, replace(run.record, switch_ordered=True, waits_for="")),)
    )


def order_recorded_arm(_run: Run, event: Committed, _now: float) -> Outcome:
    """Recorded: answer, and begin."""
    return Outcome(event.record, (Answer(True, "the switch begins"), Arm()))


def order_recorded_finish(_run: Run, event: Committed, _now: float) -> Outcome:
    """Recorded: answer, and begin with the final delta (no gateway moves, so nothing is announced)."""
    return Outcome(event.record, (Answer(True, "the switch begins"), Finish()))


def order_not_recorded(run: Run, event: CommitFailed, now: float) -> Outcome:
    """Not recorded: say so, and wait on."""
    waiting = await_trigger(run, event, now)
    words = f"the order could not be recorded: {event.reason}"
    answer = Answer(False, words, unavailable=True)
    return Outcome(waiting.record, (answer, *waiting.effects))


def record_cancel(run: Run, _event: Event, now: float) -> Outcome:
    """Write the cancel down before it is answered."""
    record = because(replace(run.record, cancel_ordered=True), "cancelled")
    return Outcome(record, (Commit(CommitKind.RECORD, staged(record, State.ROLLING_BACK, now)),))


def cancel_recorded(_run: Run, event: Committed, _now: float) -> Outcome:
    """Recorded: answer, and end the transfers."""
    return Outcome(event.record, (Answer(True, "the migration is rolled back"), EndTransfers()))


def cancel_not_recorded(run: Run, event: CommitFailed, _now: float) -> Outcome:
    """Not recorded, so not promised; rolled back all the same as soon as the database takes it."""
    words = f"the cancel could not be recorded yet: {event.reason}"
    return Outcome(run.record, (Answer(False, words, unavailable=True), EndTransfers(after_s=RETRY_S)))


def refuse_early_switch(run: Run, _event: Event, _now: float) -> Outcome:
    """The target is not in step: an unfinished switch is never forced."""
    waits = run.record.waits_for or "the target"
    words = f"not ready to switch: it waits for {waits}; order the switch when the phase is ready"
    return Outcome(run.record, (Answer(False, words),))


def accept_again(run: Run, _event: Event, _now: float) -> Outcome:
    """The same order was taken before: harmless."""
    return Outcome(run.record, (Answer(True, f"already {run.record.phase.value}"),))


def refuse_switch_back(run: Run, _event: Event, _now: float) -> Outcome:
    """Too late for a switch: it is being rolled back."""
    return Outcome(run.record, (Answer(False, f"the migration is being rolled back: {run.record.reason}"),))


def refuse_late_cancel(run: Run, _event: Event, _now: float) -> Outcome:
    """Too late for a cancel: a way back is a new migration."""
    record = run.record
    back = record.source or record.port_source
    words = f"already switched to {record.target}; ask for a migration back to {back}"
    return Outcome(record, (Answer(False, words),))


def refuse_request(run: Run, _event: Event, _now: float) -> Outcome:
    """One migration of a UDN at a time."""
    words = (
        f"migration {run.record.id} of this UDN is {run.record.phase.value}; "
        "wait until it converges, or cancel it before it switches"
    )
    return Outcome(run.record, (Answer(False, words),))


def accept_request(run: Run, _event: Event, _now: float) -> Outcome:
    """It is ending anyway."""
    return Outcome(run.record, (Answer(True, "the overlap is ending"),))


def answer_ended(run: Run, _event: Event, _now: float) -> Outcome:
    """It has ended; orders come too late."""
    return Outcome(run.record, (Answer(False, f"the migration has ended: {run.record.phase.value}"),))


def free(run: Run, _event: Event, _now: float) -> Outcome:
    """It has ended; the UDN is free for another."""
    return Outcome(run.record, (Answer(True, "no migration is in flight"),))
