"""The transition table: every (state, event) that may happen, as rows of data. Everything that decides a path
is here.

Rows of one (state, event) are tried in order; the first whose ``when`` holds is taken, the last has none. A
pair without a row cannot happen: the engine hands in a commit's answer before anything else, and drops
answers to orders of a state that was left. Events without consequence have rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ovnmig.core import actions as do
from ovnmig.core import answers as answer
from ovnmig.core import guards as when
from ovnmig.core import switching as end
from ovnmig.core.events import (
    Armed,
    CancelOrdered,
    CommitFailed,
    Committed,
    CopyObserved,
    DeadlinePassed,
    Event,
    Finished,
    NewRequest,
    OverlapObserved,
    OwnerObserved,
    Recovered,
    SwitchOrdered,
    TargetObserved,
    TransfersEnded,
    VmArrived,
)
from ovnmig.core.run import Outcome, Run
from ovnmig.core.states import State

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Row:
    """One transition. ``says`` is its sentence for the journal and the diagram; ``when`` names its
    condition's function."""

    source: State
    event: type[Event]
    target: State
    says: str
    do: Callable[[Run, Any, float], Outcome]
    when: Callable[[Run, Any], bool] | None = None


def _row(
    source: State,
    event: type[E],
    target: State,
    says: str,
    do: Callable[[Run, E, float], Outcome],
    when: Callable[[Run, E], bool] | None = None,
) -> Row:
    return Row(source, event, target, says, do, when)  # type: ignore[arg-type]  # a TypeVar bound to a union


S = State


def _preparing() -> Iterator[Row]:
    yield _row(S.REQUESTED, Committed, S.PREPARING, "the prepare transaction is written", do.begin_preparing)
    yield _row(S.REQUESTED, CommitFailed, S.FAILED, "the request could not be recorded", do.dropped)

    yield _row(
        S.RESUMED, Recovered, S.ROLLING_BACK, "a cancel was recorded", do.resume_rollback, when.was_cancelled
    )
    yield _row(
        S.RESUMED, Recovered, S.SETTLING, "the switch was committed", do.resume_settling, when.was_switched
    )
    yield _row(S.RESUMED, Recovered, S.COPYING, "it was ready", do.resume_copying, when.was_ready)
    yield _row(S.RESUMED, Recovered, S.PREPARING, "it was being prepared", do.resume_preparing)

    yield _row(
        S.PREPARING,
        TargetObserved,
        S.PREPARING,
        "the target cannot take traffic yet",
        do.look_again,
        when.unprepared,
    )
    yield _row(
        S.PREPARING, TargetObserved, S.COPYING, "the target can take traffic", do.start_copy, when.copies
    )
    yield _row(
        S.PREPARING, TargetObserved, S.ARMING, "nothing to copy, trigger met", end.arm, when.triggered_gateway
    )
    yield _row(
        S.PREPARING, TargetObserved, S.FINISHING, "nothing to copy or announce", end.finish, when.triggered
    )
    yield _row(S.PREPARING, TargetObserved, S.MARKING, "nothing to copy", do.mark_ready_without_copy)


def _copying() -> Iterator[Row]:
    yield _row(S.COPYING, CopyObserved, S.COPYING, "SB is away", do.copy_waits, when.database_away)
    yield _row(
        S.COPYING,
        CopyObserved,
        S.ROLLING_BACK,
        "the copy fails again and again",
        do.copy_lost,
        when.copy_lost,
    )
    yield _row(S.COPYING, CopyObserved, S.COPYING, "the copy starts anew", do.copy_missed, when.copy_missed)
    yield _row(S.COPYING, CopyObserved, S.COPYING, "not in step yet", do.copy_on, when.lagging)
    yield _row(
        S.COPYING, CopyObserved, S.ARMING, "in step, trigger met", end.arm_after_copy, when.triggered_gateway
    )
    yield _row(
        S.COPYING,
        CopyObserved,
        S.FINISHING,
        "in step, trigger met, gateway stays",
        end.finish_after_copy,
        when.triggered,
    )
    yield _row(S.COPYING, CopyObserved, S.MARKING, "in step", do.mark_ready)
    yield _row(S.MARKING, Committed, S.READY, "ready is recorded", do.committed_then_await)
    yield _row(S.MARKING, CommitFailed, S.COPYING, "ready could not be recorded", do.not_marked, when.copies)
    yield _row(
        S.MARKING, CommitFailed, S.PREPARING, "ready could not be recorded", do.not_marked_without_copy
    )


def _ready() -> Iterator[Row]:
    yield _row(S.READY, CopyObserved, S.COPYING, "the copy was lost", do.copy_missed, when.copy_missed)
    yield _row(S.READY, CopyObserved, S.COPYING, "not in step any more", do.copy_on, when.lagging)
    yield _row(S.READY, CopyObserved, S.READY, "still in step", do.ready_kept)
    yield _row(S.READY, VmArrived, S.ARMING, "the VM arrived", end.arm_after_arrival, when.auto_gateway)
    yield _row(
        S.READY, VmArrived, S.FINISHING, "the VM arrived, gateway stays", end.finish_after_arrival, when.auto
    )
    yield _row(S.READY, VmArrived, S.READY, "the VM arrived; the order is awaited", do.note_arrival)
    yield _row(S.READY, SwitchOrdered, S.ORDERING, "the switch is ordered", answer.record_order)
    yield _row(
        S.ORDERING,
        Committed,
        S.ARMING,
        "the order is recorded",
        answer.order_recorded_arm,
        when.written_gateway,
    )
    yield _row(
        S.ORDERING,
        Committed,
        S.FINISHING,
        "the order is recorded, gateway stays",
        answer.order_recorded_finish,
    )
    yield _row(
        S.ORDERING, CommitFailed, S.READY, "the order could not be recorded", answer.order_not_recorded
    )


def _switching() -> Iterator[Row]:
    yield _row(S.ARMING, Armed, S.ROLLING_BACK, "the target's agent is gone", end.arm_lost, when.arm_lost)
    yield _row(S.ARMING, Armed, S.ARMING, "the announcement is not armed", end.arm_again, when.arm_failed)
    yield _row(S.ARMING, Armed, S.FINISHING, "the announcement is armed", end.finish)
    yield _row(
        S.FINISHING,
        Finished,
        S.COMMITTING,
        "the final delta is acknowledged",
        end.commit_switch,
        when.acknowledged,
    )
    yield _row(
        S.FINISHING, Finished, S.ROLLING_BACK, "no final delta to be had", end.finish_lost, when.finish_lost
    )
    yield _row(S.FINISHING, Finished, S.FINISHING, "the final delta is not acknowledged", end.finish_again)
    yield _row(S.COMMITTING, Committed, S.SETTLING, "switched in the database", end.settle)
    yield _row(S.COMMITTING, CommitFailed, S.FINISHING, "the switch could not be written", end.switch_again)
    yield _row(S.SETTLING, OwnerObserved, S.CONVERGING, "the target took over", end.converge, when.taken_over)
    yield _row(S.SETTLING, OwnerObserved, S.SETTLING, "not taken over yet", end.settle_on)
    yield _row(
        S.SETTLING, DeadlinePassed, S.CONVERGING, "not seen to take over in time", end.converge_unclaimed
    )


def _ending() -> Iterator[Row]:
    yield _row(S.CONVERGING, OverlapObserved, S.CONVERGING, "both nodes keep the sessions", end.overlap_on)
    yield _row(S.CONVERGING, DeadlinePassed, S.ENDING, "the overlap is over", end.end_overlap)
    yield _row(S.CONVERGING, NewRequest, S.ENDING, "a new request ends the overlap", end.end_overlap_early)
    yield _row(S.ENDING, TransfersEnded, S.ENDING, "not over yet", end.end_again, when.not_over)
    yield _row(S.ENDING, TransfersEnded, S.CLOSING, "transfers ended", end.close)
    yield _row(
        S.CLOSING, Committed, S.FAILED, "closed, a person is needed", end.take_committed, when.closed_failed
    )
    yield _row(S.CLOSING, Committed, S.COMPLETED, "closed", end.take_committed)
    yield _row(S.CLOSING, CommitFailed, S.ENDING, "the end could not be written", end.close_again)
    yield _row(S.ROLLING_BACK, TransfersEnded, S.RESTORING, "transfers ended", end.restore)
    yield _row(S.RESTORING, Committed, S.ROLLED_BACK, "all rows are as before", end.take_committed)
    yield _row(S.RESTORING, CommitFailed, S.ROLLING_BACK, "the rows could not be put back", end.restore_again)
    yield _row(S.CANCELLING, Committed, S.ROLLING_BACK, "the cancel is recorded", answer.cancel_recorded)
    yield _row(
        S.CANCELLING,
        CommitFailed,
        S.ROLLING_BACK,
        "the cancel could not be recorded",
        answer.cancel_not_recorded,
    )


def _orders() -> Iterator[Row]:
    for state in (S.PREPARING, S.COPYING, S.READY, S.ARMING, S.FINISHING):
        yield _row(state, DeadlinePassed, S.ROLLING_BACK, "took too long", end.late)
        yield _row(state, CancelOrdered, S.CANCELLING, "cancelled", answer.record_cancel)
        yield _row(state, NewRequest, state, "another request is refused", answer.refuse_request)
    for state in (S.PREPARING, S.COPYING):
        yield _row(state, VmArrived, state, "the VM arrived early", do.note_early_arrival)
        yield _row(state, SwitchOrdered, state, "a switch is refused: not ready", answer.refuse_early_switch)
    for state in (S.ARMING, S.FINISHING, S.SETTLING, S.CONVERGING, S.ENDING):
        yield _row(state, VmArrived, state, "the VM arrived", do.note_arrival)
        yield _row(state, SwitchOrdered, state, "the switch is under way or done", answer.accept_again)
    for state in (S.SETTLING, S.CONVERGING, S.ENDING):
        yield _row(state, CancelOrdered, state, "a cancel is refused: switched", answer.refuse_late_cancel)
    yield _row(S.SETTLING, NewRequest, S.SETTLING, "another request is refused", answer.refuse_request)
    yield _row(S.ENDING, NewRequest, S.ENDING, "the overlap is ending", answer.accept_request)
    yield _row(S.ROLLING_BACK, VmArrived, S.ROLLING_BACK, "the VM arrived", do.note_arrival)
    yield _row(
        S.ROLLING_BACK,
        SwitchOrdered,
        S.ROLLING_BACK,
        "a switch is refused: rolling back",
        answer.refuse_switch_back,
    )
    yield _row(S.ROLLING_BACK, CancelOrdered, S.ROLLING_BACK, "already rolling back", answer.accept_again)
    yield _row(
        S.ROLLING_BACK, NewRequest, S.ROLLING_BACK, "another request is refused", answer.refuse_request
    )
    for state in (S.COMPLETED, S.ROLLED_BACK, S.FAILED):
        yield _row(state, VmArrived, state, "it has ended", do.nothing)
        yield _row(state, SwitchOrdered, state, "a switch is refused: ended", answer.answer_ended)
        yield _row(state, CancelOrdered, state, "a cancel is refused: ended", answer.answer_ended)
        yield _row(state, NewRequest, state, "the UDN is free", answer.free)


ROWS: tuple[Row, ...] = (*_preparing(), *_copying(), *_ready(), *_switching(), *_ending(), *_orders())
"""Every transition there is."""


def _table() -> Mapping[tuple[State, type[Event]], tuple[Row, ...]]:
    table: dict[tuple[State, type[Event]], tuple[Row, ...]] = {}
    for row in ROWS:
        key = (row.source, row.event)
        table[key] = (*table.get(key, ()), row)
    return table


TABLE = _table()
"""Rows by (state, event), in the order in which they are tried."""
