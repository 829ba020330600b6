"""The conditions of the transition table: pure questions about a run and an event."""

from __future__ import annotations

from ovnmig.core import judge, legs
from ovnmig.core.events import (
    Armed,
    Committed,
    CopyObserved,
    Event,
    Finished,
    OwnerObserved,
    Recovered,
    TargetObserved,
    TransfersEnded,
)
from ovnmig.core.migration import Phase, Trigger
from ovnmig.core.run import MAX_MISSES, Run


def _last_miss(run: Run) -> bool:
    return run.misses + 1 >= MAX_MISSES


def was_cancelled(run: Run, _event: Recovered) -> bool:
    """A cancel was recorded before the switch."""
    return run.record.switched_at is None and (
        run.record.cancel_ordered or run.record.phase is Phase.ROLLING_BACK
    )


def was_switched(run: Run, _event: Recovered) -> bool:
    """The switch transaction is in the database."""
    return run.record.switched_at is not None


def was_ready(run: Run, _event: Recovered) -> bool:
    """It was recorded as ready, with entries to keep in step."""
    return run.record.phase is Phase.READY and judge.copies(run.record)


def unprepared(run: Run, event: TargetObserved) -> bool:
    """The target's agent did not answer, or says that traffic could not arrive."""
    return event.readiness is None or bool(
        judge.target_problem(run.record, run.router, event.nb_cfg, event.readiness)
    )


def copies(run: Run, _event: Event) -> bool:
    """Entries are to be moved."""
    return judge.copies(run.record)


def triggered(run: Run, _event: Event) -> bool:
    """The switch may happen at once."""
    return judge.trigger_met(run.record)


def triggered_gateway(run: Run, _event: Event) -> bool:
    """The switch may happen at once, and the gateway moves with it."""
    return judge.trigger_met(run.record) and run.record.moves_gateway


def database_away(_run: Run, event: CopyObserved) -> bool:
    """SB could not be read, which says nothing about the agents."""
    return bool(event.away)


def copy_missed(run: Run, event: CopyObserved) -> bool:
    """An agent did not answer, or the gateway's leg is gone or has failed."""
    return bool(event.problem or legs.unfit(run.record, event.statuses))


def copy_lost(run: Run, event: CopyObserved) -> bool:
    """The same, once too often."""
    return copy_missed(run, event) and _last_miss(run)


def lagging(run: Run, event: CopyObserved) -> bool:
    """Something that could be in step is not (also: the VM was plugged on the target, so its own zone can be
    copied)."""
    return bool(legs.lagging(run.record, event.statuses, event.port_zone_there, run.port_lost))


def auto(run: Run, _event: Event) -> bool:
    """The VM's arrival starts the switch."""
    return run.record.trigger is Trigger.AUTO


def auto_gateway(run: Run, event: Event) -> bool:
    """The VM's arrival starts the switch, and the gateway moves with it."""
    return auto(run, event) and run.record.moves_gateway


def written_gateway(_run: Run, event: Committed) -> bool:
    """The gateway moves."""
    return event.record.moves_gateway


def arm_failed(_run: Run, event: Armed) -> bool:
    """The target's agent did not take the order."""
    return bool(event.problem)


def arm_lost(run: Run, event: Armed) -> bool:
    """The same, once too often."""
    return bool(event.problem) and _last_miss(run)


def acknowledged(run: Run, event: Finished) -> bool:
    """Every leg that must be is final on the target."""
    return not event.problem and legs.final(run.record, event.statuses)


def finish_lost(run: Run, _event: Finished) -> bool:
    """Not acknowledged, once too often."""
    return _last_miss(run)


def taken_over(run: Run, event: OwnerObserved) -> bool:
    """SB shows the target as owner of the gateway (or, where it stays, the VM on the target)."""
    return event.owner == run.record.target if run.record.moves_gateway else event.vm_on_target


def not_over(run: Run, event: TransfersEnded) -> bool:
    """An agent could not be told, or SB shows no owner: a late release wipes the new claim for a moment."""
    unclaimed = run.record.moves_gateway and event.vm_on_target is not None and not event.owner
    return (bool(event.problem) or unclaimed) and not _last_miss(run)


def closed_failed(_run: Run, event: Committed) -> bool:
    """The record was closed as failed."""
    return event.record.phase is Phase.FAILED
