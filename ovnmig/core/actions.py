"""What the rows of the transition table do before the switch: pure functions from a run and an event to an
outcome."""

from __future__ import annotations

from dataclasses import replace

from ovnmig.core import legs
from ovnmig.core.effects import (
    Commit,
    CommitKind,
    Copy,
    Effect,
    EndTransfers,
    ObserveOwner,
    ObserveTarget,
    WatchArrival,
)
from ovnmig.core.events import (
    CommitFailed,
    Committed,
    CopyObserved,
    Event,
    Recovered,
    TargetObserved,
)
from ovnmig.core.judge import target_problem, trigger_words
from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.run import RETRY_S, Outcome, Run, staged
from ovnmig.core.states import State
from ovnmig.core.wording import POLL_S, WATCH_S, because, seen, waiting


def _watch(record: MigrationRecord) -> tuple[Effect, ...]:
    return (WatchArrival(),) if record.port is not None and not record.arrived else ()


def nothing(run: Run, _event: Event, _now: float) -> Outcome:
    """Leave all as it is."""
    return Outcome(run.record)


def begin_preparing(_run: Run, event: Committed, _now: float) -> Outcome:
    """The prepare transaction is in: look at the target and for the VM."""
    record = replace(event.record, nb_cfg=event.nb_cfg)
    return Outcome(record, (*_watch(record), ObserveTarget()))


def dropped(run: Run, event: CommitFailed, now: float) -> Outcome:
    """The prepare transaction did not get in: nothing happened, nothing to undo."""
    return Outcome(because(run.record, f"the record could not be written: {event.reason}"))


def resume_preparing(run: Run, event: Recovered, now: float) -> Outcome:
    """Look anew. The configuration number now is at least the one our prepare transaction made; time starts
    again."""
    record = replace(run.record, nb_cfg=run.record.nb_cfg or event.nb_cfg, phase_since=now)
    return Outcome(record, (*_watch(record), ObserveTarget()))


def resume_copying(run: Run, _event: Recovered, now: float) -> Outcome:
    """It was ready. The agents may have lost their transfers meanwhile: start them (harmless when they run)
    and look."""
    outcome = start_copy(replace(run, record=replace(run.record, phase_since=now)), _event, now)
    return Outcome(outcome.record, (*_watch(run.record), *outcome.effects))


def resume_rollback(run: Run, _event: Recovered, _now: float) -> Outcome:
    """The cancel was recorded: finish it."""
    return Outcome(because(run.record, "cancelled"), (EndTransfers(),))


def resume_settling(run: Run, _event: Recovered, now: float) -> Outcome:
    """The switch is in the database: see who owns the gateway and go on from there."""
    return Outcome(run.record, (ObserveOwner(),))


def look_again(run: Run, event: TargetObserved, _now: float) -> Outcome:
    """The target cannot take traffic yet."""
    words = event.problem
    if event.readiness is not None:
        words = target_problem(run.record, run.router, event.nb_cfg, event.readiness)
    return Outcome(waiting(run.record, words), (ObserveTarget(after_s=POLL_S),))


def start_copy(run: Run, _event: Event, _now: float) -> Outcome:
    """Start the gateway's leg; the VM's own follows when it is plugged."""
    start = tuple(leg for leg in legs.forward_legs(run.record) if leg is Leg.GATEWAY)
    return Outcome(run.record, (Copy(start=start),))


def await_trigger(run: Run, _event: Event, _now: float) -> Outcome:
    """Wait, and keep an eye on the legs."""
    record = waiting(run.record, trigger_words(run.record))
    return Outcome(record, (Copy(after_s=WATCH_S),) if legs.forward_legs(record) else ())


def copy_on(run: Run, event: CopyObserved, _now: float) -> Outcome:
    """Not in step yet: start the VM's own leg when its zone appeared, and look again."""
    record = seen(run.record, event)
    missing = legs.port_leg_missing(record, event.statuses, event.port_zone_there) and not run.port_lost
    words = legs.lagging(record, event.statuses, event.port_zone_there, run.port_lost)
    return Outcome(
        waiting(record, words),
        (Copy(start=(Leg.PORT,) if missing else (), after_s=0.0 if missing else POLL_S),),
    )


def copy_waits(run: Run, event: CopyObserved, now: float) -> Outcome:
    """A leg could not be started for want of SB: again after a pause, until the phase's deadline."""
    outcome = start_copy(run, event, now)
    effects = tuple(
        replace(effect, after_s=RETRY_S) for effect in outcome.effects if isinstance(effect, Copy)
    )
    return Outcome(waiting(run.record, f"the Southbound database: {event.away}"), effects)


def copy_missed(run: Run, event: CopyObserved, _now: float) -> Outcome:
    """No answer, or the gateway's leg is gone: start it again after a pause."""
    words = event.problem or legs.unfit(run.record, event.statuses)
    start = tuple(leg for leg in legs.forward_legs(run.record) if leg is Leg.GATEWAY)
    return Outcome(waiting(run.record, words), (Copy(start=start, after_s=RETRY_S),), missed=True)


def copy_lost(run: Run, event: CopyObserved, _now: float) -> Outcome:
    """Too many failures in a row: the gateway stays where it is."""
    words = event.problem or legs.unfit(run.record, event.statuses)
    return Outcome(because(run.record, f"the copy failed: {words}"), (EndTransfers(),))


def mark_ready(run: Run, event: CopyObserved, now: float) -> Outcome:
    """In step: write it down, so that an orchestrator and the next controller can rely on it."""
    record = seen(run.record, event)
    return Outcome(record, (Commit(CommitKind.RECORD, staged(record, State.READY, now)),))


def mark_ready_without_copy(run: Run, _event: TargetObserved, now: float) -> Outcome:
    """Nothing is copied: ready at once."""
    return Outcome(run.record, (Commit(CommitKind.RECORD, staged(run.record, State.READY, now)),))


def ready_kept(run: Run, event: CopyObserved, _now: float) -> Outcome:
    """Still in step."""
    record = waiting(seen(run.record, event), trigger_words(run.record))
    return Outcome(record, (Copy(after_s=WATCH_S),))


def committed_then_await(run: Run, event: Committed, now: float) -> Outcome:
    """Written; now wait for the trigger."""
    return await_trigger(replace(run, record=event.record), event, now)


def not_marked(run: Run, event: CommitFailed, _now: float) -> Outcome:
    """The database did not take ``ready``: look at the legs again and try again after a pause."""
    return Outcome(waiting(run.record, f"the Northbound database: {event.reason}"), (Copy(after_s=RETRY_S),))


def not_marked_without_copy(run: Run, event: CommitFailed, _now: float) -> Outcome:
    """The database did not take ``ready``, and there is no copy to look at: look at the target again."""
    return Outcome(
        waiting(run.record, f"the Northbound database: {event.reason}"), (ObserveTarget(after_s=RETRY_S),)
    )


def note_arrival(run: Run, _event: Event, _now: float) -> Outcome:
    """Remember that the VM is there."""
    return Outcome(replace(run.record, arrived=True))


def note_early_arrival(run: Run, _event: Event, _now: float) -> Outcome:
    """Remember it, and that its own zone may have come too late. The switch is not forced by it."""
    return Outcome(replace(run.record, arrived=True, arrived_early=True))
