"""What the rows of the transition table do from the switch to the end, and on the way back."""

from __future__ import annotations

from dataclasses import replace

from ovnmig.core import legs
from ovnmig.core.effects import (
    Arm,
    Commit,
    CommitKind,
    EndTransfers,
    Finish,
    ObserveOwner,
    Overlap,
)
from ovnmig.core.events import (
    Armed,
    CommitFailed,
    Committed,
    CopyObserved,
    DeadlinePassed,
    Event,
    Finished,
    OverlapObserved,
    OwnerObserved,
    TransfersEnded,
)
from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.run import RETRY_S, Outcome, Run, staged
from ovnmig.core.states import State
from ovnmig.core.wording import POLL_S, WATCH_S, because, counted, seen, waiting, warned


def take_committed(_run: Run, event: Committed, _now: float) -> Outcome:
    """The record as written is the record now."""
    return Outcome(event.record)


def arm(run: Run, _event: Event, _now: float) -> Outcome:
    """Have the announcement ready before the port moves."""
    return Outcome(run.record, (Arm(),))


def arm_after_arrival(run: Run, _event: Event, _now: float) -> Outcome:
    """The VM is there: arm."""
    return Outcome(replace(run.record, arrived=True), (Arm(),))


def arm_after_copy(run: Run, event: CopyObserved, _now: float) -> Outcome:
    """In step and the trigger already met: no stop at ready."""
    return Outcome(seen(run.record, event), (Arm(),))


def arm_again(run: Run, event: Armed, _now: float) -> Outcome:
    """The target's agent did not take the order: again after a pause."""
    return Outcome(waiting(run.record, event.problem), (Arm(after_s=RETRY_S),), missed=True)


def arm_lost(run: Run, event: Armed, _now: float) -> Outcome:
    """The target's agent is not there: a gateway nobody announces would be cut off, so it stays."""
    return Outcome(
        because(run.record, f"the announcement could not be armed: {event.problem}"), (EndTransfers(),)
    )


def finish(run: Run, _event: Event, _now: float) -> Outcome:
    """Order the final delta."""
    return Outcome(run.record, (Finish(),))


def finish_after_arrival(run: Run, _event: Event, _now: float) -> Outcome:
    """The VM is there: final delta of its own zone."""
    return Outcome(replace(run.record, arrived=True), (Finish(),))


def finish_after_copy(run: Run, event: CopyObserved, _now: float) -> Outcome:
    """In step and the trigger already met: final delta."""
    return Outcome(seen(run.record, event), (Finish(),))


def _finish_problem(run: Run, event: Finished) -> str:
    return event.problem or legs.unfit(run.record, event.statuses) or "the final delta is not acknowledged"


def finish_again(run: Run, event: Finished, _now: float) -> Outcome:
    """Not acknowledged: again after a pause."""
    return Outcome(waiting(run.record, _finish_problem(run, event)), (Finish(after_s=RETRY_S),), missed=True)


def finish_lost(run: Run, event: Finished, _now: float) -> Outcome:
    """The final delta cannot be had: the gateway stays where its sessions are."""
    return Outcome(
        because(run.record, f"the final delta failed: {_finish_problem(run, event)}"), (EndTransfers(),)
    )


def commit_switch(run: Run, event: Finished, now: float) -> Outcome:
    """Everything is on the target: move the gateway in one transaction."""
    record = seen(run.record, event) if event.statuses else run.record
    switched = replace(record, switched_at=now, nb_transactions=record.nb_transactions + 1)
    return Outcome(record, (Commit(CommitKind.SWITCH, staged(switched, State.SETTLING, now)),))


def switch_again(run: Run, event: CommitFailed, _now: float) -> Outcome:
    """The database did not take the switch: refresh the final delta after a pause and try again."""
    return Outcome(
        waiting(run.record, f"the Northbound database: {event.reason}"), (Finish(after_s=RETRY_S),)
    )


def _claim(record: MigrationRecord) -> str:
    return f"the claim by {record.target}" if record.moves_gateway else f"the VM on {record.target}"


def settle(_run: Run, event: Committed, _now: float) -> Outcome:
    """Switched. See whether the target claims the port."""
    return Outcome(waiting(event.record, _claim(event.record)), (ObserveOwner(),))


def settle_on(run: Run, event: OwnerObserved, _now: float) -> Outcome:
    """Not claimed yet."""
    record = replace(run.record, owner=event.owner)
    return Outcome(waiting(record, _claim(record)), (ObserveOwner(after_s=POLL_S),))


def converge(run: Run, event: OwnerObserved, _now: float) -> Outcome:
    """The target owns it: replicate back for the overlap."""
    return Outcome(waiting(replace(run.record, owner=event.owner), "the end of the overlap"), (Overlap(),))


def converge_unclaimed(run: Run, _event: DeadlinePassed, _now: float) -> Outcome:
    """Not seen to be claimed in time. There is no way back, so go on; who owns it is looked at until the
    end."""
    record = run.record
    if record.moves_gateway:
        owner = record.owner or "nobody"
        record = warned(
            record, f"{record.target} was not seen to claim the gateway in time; its owner was {owner}"
        )
    else:
        record = warned(record, f"the VM was not seen on {record.target} in time")
    return Outcome(waiting(record, "the end of the overlap"), (Overlap(),))


def overlap_on(run: Run, event: OverlapObserved, _now: float) -> Outcome:
    """Keep both directions alive and know the owner."""
    record = replace(run.record, owner=event.owner or run.record.owner)
    if event.statuses.get(Leg.GATEWAY) is not None:
        record = counted(record, event.statuses)
    return Outcome(warned(record, event.problem), (Overlap(after_s=WATCH_S),))


def end_overlap(run: Run, _event: Event, _now: float) -> Outcome:
    """Transfers end before any node loses its zone: a flush must not be copied as deletions."""
    return Outcome(run.record, (EndTransfers(),))


def end_overlap_early(run: Run, _event: Event, _now: float) -> Outcome:
    """A newer request needs the gateway's rows."""
    return Outcome(replace(run.record, overlap_ended=True), (EndTransfers(),))


def end_again(run: Run, event: TransfersEnded, _now: float) -> Outcome:
    """A transfer may still run, or nobody owns the gateway at this instant: again before it is noted."""
    record = waiting(run.record, event.problem or _claim(run.record))
    return Outcome(record, (EndTransfers(after_s=RETRY_S),), missed=True)


def _last_owner(run: Run, event: TransfersEnded) -> str | None:
    """Who owns the gateway at the end (empty: nobody), ``None`` when that was never seen."""
    if event.vm_on_target is not None:
        return event.owner
    return run.record.owner or None


def close(run: Run, event: TransfersEnded, now: float) -> Outcome:
    """Write the end down, with the HA set trimmed. A gateway that is not where it should be needs a
    person."""
    owner = _last_owner(run, event)
    record = warned(replace(run.record, owner=owner or ""), event.problem)
    closed = replace(record, nb_transactions=record.nb_transactions + 1)
    state = State.COMPLETED
    if record.moves_gateway and owner not in (None, record.target):
        state = State.FAILED
        words = f"{owner or 'nobody'} owns the gateway, not {record.target}"
        closed = because(closed, f"{words}: look at {record.target}, then move the gateway by hand")
    return Outcome(record, (Commit(CommitKind.CLOSE, staged(closed, state, now)),))


def close_again(run: Run, event: CommitFailed, _now: float) -> Outcome:
    """The database did not take the end: again after a pause."""
    return Outcome(
        waiting(run.record, f"the Northbound database: {event.reason}"), (EndTransfers(after_s=RETRY_S),)
    )


def late(run: Run, _event: DeadlinePassed, _now: float) -> Outcome:
    """The phase lasted too long: the gateway stays where it is."""
    words = f"{run.record.phase.value} took too long"
    if run.record.waits_for:
        words += f"; it waited for {run.record.waits_for}"
    return Outcome(because(run.record, words), (EndTransfers(),))


def restore(run: Run, event: TransfersEnded, now: float) -> Outcome:
    """Put the rows back as they were; a VM that already runs on the target stays bound there."""
    there = run.record.arrived if event.vm_on_target is None else event.vm_on_target
    record = warned(replace(run.record, arrived=there), event.problem)
    restored = replace(record, nb_transactions=record.nb_transactions + 1)
    return Outcome(record, (Commit(CommitKind.RESTORE, staged(restored, State.ROLLED_BACK, now)),))


def restore_again(run: Run, event: CommitFailed, _now: float) -> Outcome:
    """The database did not take the rows back: again after a pause, until it does."""
    return Outcome(
        waiting(run.record, f"the Northbound database: {event.reason}"), (EndTransfers(after_s=RETRY_S),)
    )
