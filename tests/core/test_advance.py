from __future__ import annotations

import pytest

from ovnmig.core.advance import IllegalTransition, advance, resume, start
from ovnmig.core.deadlines import deadline
from ovnmig.core.effects import (
    Arm,
    Commit,
    CommitKind,
    Copy,
    EndTransfers,
    Finish,
    ObserveTarget,
    WatchArrival,
)
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
    OwnerObserved,
    SwitchOrdered,
    TargetObserved,
    TransfersEnded,
    VmArrived,
)
from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord, Phase, TransferMode, Trigger
from ovnmig.core.states import State
from ovnmig.core.transfer import TransferState
from tests.core.machine import LIMITS, ROUTER, Driver, a_record, in_state, ready_target, status


def begun(**changes: object) -> Driver:
    driver = Driver()
    driver.begin(a_record(**changes))
    return driver


def phases(record: MigrationRecord) -> list[str]:
    return [phase.value for phase, _ in record.phase_times]


def test_a_move_writes_three_effect_transactions_and_goes_through_all_phases() -> None:
    driver = begun()
    record = driver.finish()
    assert phases(record) == ["preparing", "copying", "ready", "switching", "converging", "completed"]
    assert [saved.phase.value for saved in driver.saved] == ["preparing", "ready", "switching", "completed"]
    assert record.nb_transactions == 3
    assert record.counts.read == 6
    assert record.ended_at is not None
    assert record.switched_at is not None
    assert record.ended_at - record.switched_at >= record.overlap_s


def test_the_prepare_transaction_is_the_only_order_before_the_record_is_written() -> None:
    step = start(a_record(), ROUTER, 1000.0)
    assert [type(effect) for effect in step.effects] == [Commit]
    step = advance(step.run, Committed(a_record(phase=Phase.PREPARING), 7), 1000.0)
    assert step.effects == (WatchArrival(), ObserveTarget())
    assert step.run.record.nb_cfg == 7


def test_a_request_that_could_not_be_recorded_has_failed_and_undoes_nothing() -> None:
    driver = Driver(replies=lambda _d, e: CommitFailed("not connected") if isinstance(e, Commit) else None)
    driver.begin(a_record())
    assert driver.run is not None
    assert driver.run.state is State.FAILED
    assert "could not be written" in driver.run.record.reason
    assert driver.saved == []


def test_an_early_arrival_does_not_force_the_switch_but_skips_the_wait() -> None:
    driver = begun()
    driver.until(State.COPYING)
    assert driver.feed(VmArrived()).run.state is State.COPYING
    record = driver.finish()
    assert record.arrived_early
    assert "ready" not in phases(record)
    assert record.nb_transactions == 3


def test_a_manual_trigger_waits_for_the_order_and_records_it_before_answering() -> None:
    driver = begun(trigger=Trigger.MANUAL)
    driver.until(State.READY)
    for _ in range(5):
        assert driver.tick()
    assert driver.run is not None
    assert driver.run.state is State.READY
    assert driver.run.record.arrived
    assert driver.run.record.waits_for == "the order to switch"
    driver.feed(SwitchOrdered())
    assert driver.saved[-1].switch_ordered
    assert driver.answers[-1].accepted
    assert driver.finish().phase is Phase.COMPLETED


def test_a_switch_ordered_before_ready_is_refused_with_what_is_waited_for() -> None:
    driver = begun(trigger=Trigger.MANUAL)
    driver.feed(SwitchOrdered())
    assert not driver.answers[-1].accepted
    assert "order the switch when the phase is ready" in driver.answers[-1].words


def test_a_switch_order_that_cannot_be_recorded_is_not_accepted_and_can_be_repeated() -> None:
    failing = True

    def replies(_driver: Driver, effect: Effect) -> Event | None:
        order = isinstance(effect, Commit) and effect.record.switch_ordered
        return CommitFailed("not connected") if failing and order else None

    driver = begun(trigger=Trigger.MANUAL)
    driver.replies = replies
    run = driver.until(State.READY)
    driver.feed(SwitchOrdered())
    assert driver.answers[-1].unavailable
    assert driver.run is not None
    assert driver.run.state is State.READY
    assert not run.record.switch_ordered
    failing = False
    driver.feed(SwitchOrdered())
    assert driver.answers[-1].accepted


def test_without_transfer_nothing_is_copied_and_no_way_back_is_kept() -> None:
    driver = begun(transfer=TransferMode.NONE)
    record = driver.finish()
    assert "copying" not in phases(record)
    assert record.counts.read == 0
    assert record.nb_transactions == 3


def test_a_pinned_gateway_moves_only_the_ports_zone_and_arms_nothing() -> None:
    driver = begun(moves_gateway=False, source="C")
    orders: list[type] = []
    driver.replies = lambda _d, effect: orders.append(type(effect))
    record = driver.finish()
    assert record.phase is Phase.COMPLETED
    assert Arm not in orders
    assert Finish in orders


def test_a_gateway_moved_by_hand_waits_for_no_vm() -> None:
    driver = begun(port=None, port_source="")
    assert driver.finish().phase is Phase.COMPLETED
    assert not driver.watching


@pytest.mark.parametrize(
    ("state", "limit_s"),
    [(State.PREPARING, 60.0), (State.COPYING, 120.0), (State.READY, 600.0)],
)
def test_a_phase_that_takes_too_long_rolls_back_and_says_what_was_missing(
    state: State, limit_s: float
) -> None:
    def never(driver: Driver, effect: Effect) -> Event | None:
        if isinstance(effect, ObserveTarget) and state is State.PREPARING:
            return TargetObserved(0, ready_target(a_record()))
        if isinstance(effect, Copy) and state is State.COPYING:
            return CopyObserved({Leg.GATEWAY: status(Leg.GATEWAY, TransferState.COPYING)})
        return None

    driver = begun(nb_cfg=5)
    driver.replies = never
    driver.arrives = False
    record = driver.finish(limit=4000)
    assert record.phase is Phase.ROLLED_BACK
    assert "took too long; it waited for" in record.reason
    assert record.ended_at is not None
    assert record.ended_at - 1000.0 >= limit_s
    assert record.nb_transactions == 2


def test_a_manual_ready_never_expires() -> None:
    driver = begun(trigger=Trigger.MANUAL)
    assert deadline(driver.until(State.READY), LIMITS) is None


def test_an_agent_that_dies_while_copying_rolls_back_after_three_failures() -> None:
    driver = begun()
    driver.until(State.COPYING)
    driver.replies = lambda _d, e: CopyObserved(problem="connection refused") if isinstance(e, Copy) else None
    record = driver.finish()
    assert record.phase is Phase.ROLLED_BACK
    assert "connection refused" in record.reason
    assert record.switched_at is None


def test_a_failed_leg_is_started_again_and_may_recover() -> None:
    left = [CopyObserved({Leg.GATEWAY: status(Leg.GATEWAY, TransferState.FAILED, "peer restarted")})] * 2
    driver = begun()
    driver.until(State.COPYING)
    driver.replies = lambda _d, e: left.pop() if isinstance(e, Copy) and left else None
    assert driver.finish().phase is Phase.COMPLETED


def test_a_leg_lost_while_ready_goes_back_to_copying() -> None:
    driver = begun(trigger=Trigger.MANUAL)
    driver.until(State.READY)
    step = driver.feed(CopyObserved({Leg.GATEWAY: None}))
    assert step.run.state is State.COPYING
    assert step.effects == (Copy(start=(Leg.GATEWAY,), after_s=1.0),)


def test_a_vm_plugged_on_the_target_has_its_own_zone_copied_before_ready_is_said_again() -> None:
    driver = begun()
    driver.arrives = False
    driver.until(State.READY)
    step = driver.feed(CopyObserved({Leg.GATEWAY: status(Leg.GATEWAY)}, port_zone_there=True))
    assert step.run.state is State.COPYING
    assert step.effects == (Copy(start=(Leg.PORT,)),)
    driver.arrives = True
    assert phases(driver.finish()).count("ready") == 2


def test_a_failed_copy_of_the_vms_own_zone_warns_and_never_holds_up_the_gateway() -> None:
    copied = {
        Leg.GATEWAY: status(Leg.GATEWAY),
        Leg.PORT: status(Leg.PORT, TransferState.FAILED, "the zone was flushed"),
    }
    driver = begun()
    driver.replies = lambda _d, e: CopyObserved(copied, True) if isinstance(e, Copy) else None
    record = driver.finish()
    assert record.phase is Phase.COMPLETED
    assert record.warnings == ("the VM's own zone could not be moved: the zone was flushed",)


def test_an_announcement_that_cannot_be_armed_leaves_the_gateway_where_it_is() -> None:
    driver = begun()
    driver.replies = lambda _d, e: Armed("connection refused") if isinstance(e, Arm) else None
    record = driver.finish()
    assert record.phase is Phase.ROLLED_BACK
    assert "could not be armed" in record.reason


def test_a_final_delta_without_acknowledgement_leaves_the_gateway_where_it_is() -> None:
    driver = begun()
    unfinished = Finished({Leg.GATEWAY: status(Leg.GATEWAY)})
    driver.replies = lambda _d, e: unfinished if isinstance(e, Finish) else None
    record = driver.finish()
    assert record.phase is Phase.ROLLED_BACK
    assert "not acknowledged" in record.reason


def test_switching_that_takes_too_long_before_the_commit_rolls_back() -> None:
    driver = begun()
    run = driver.until(State.ARMING)
    driver.now = run.record.phase_since + LIMITS.switching_s
    driver.feed(DeadlinePassed())
    assert driver.finish().phase is Phase.ROLLED_BACK


@pytest.mark.parametrize("kind", [kind for kind in CommitKind if kind is not CommitKind.PREPARE])
def test_a_database_that_is_away_for_a_while_delays_every_commit_and_loses_none(kind: CommitKind) -> None:
    failures = [CommitFailed("not connected")] * 3

    def replies(_driver: Driver, effect: Effect) -> Event | None:
        return failures.pop() if isinstance(effect, Commit) and effect.kind is kind and failures else None

    driver = begun(overlap_s=1.0)
    driver.replies = replies
    if kind is CommitKind.RESTORE:
        driver.until(State.READY)
        driver.feed(CancelOrdered())
    record = driver.finish()
    assert failures == []
    assert record.phase is (Phase.ROLLED_BACK if kind is CommitKind.RESTORE else Phase.COMPLETED)
    assert record.nb_transactions == (2 if kind is CommitKind.RESTORE else 3)


@pytest.mark.parametrize(
    "state", [State.PREPARING, State.COPYING, State.READY, State.ARMING, State.FINISHING]
)
def test_a_cancel_before_the_switch_is_recorded_answered_and_rolled_back(state: State) -> None:
    driver = begun()
    driver.until(state)
    driver.feed(CancelOrdered())
    assert driver.saved[-1].cancel_ordered
    assert driver.answers[-1].accepted
    record = driver.finish()
    assert record.phase is Phase.ROLLED_BACK
    assert record.reason == "cancelled"
    assert record.switched_at is None


def test_a_cancel_that_cannot_be_recorded_is_not_promised_but_carried_out() -> None:
    driver = begun()
    driver.until(State.READY)
    once = [CommitFailed("not connected")]
    driver.replies = lambda _d, e: once.pop() if isinstance(e, Commit) and once else None
    driver.feed(CancelOrdered())
    assert driver.answers[-1].unavailable
    assert driver.finish().phase is Phase.ROLLED_BACK


@pytest.mark.parametrize("state", [State.SETTLING, State.CONVERGING])
def test_a_cancel_after_the_switch_is_refused_with_the_way_back(state: State) -> None:
    driver = begun()
    driver.until(state)
    driver.feed(CancelOrdered())
    assert driver.answers[-1].words == "already switched to B; ask for a migration back to A"
    assert driver.finish().phase is Phase.COMPLETED


def test_a_vm_already_on_the_target_keeps_its_binding_when_the_gateway_is_rolled_back() -> None:
    driver = begun()
    driver.until(State.COPYING)
    driver.feed(VmArrived())
    driver.replies = lambda _d, e: TransfersEnded("A", True) if isinstance(e, EndTransfers) else None
    driver.feed(CancelOrdered())
    assert driver.finish().arrived


def test_when_sb_cannot_be_read_at_the_rollback_the_last_arrival_seen_holds() -> None:
    driver = begun()
    driver.until(State.COPYING)
    driver.feed(VmArrived())
    driver.replies = lambda _d, e: (
        TransfersEnded("", None, "SB away") if isinstance(e, EndTransfers) else None
    )
    driver.feed(CancelOrdered())
    record = driver.finish()
    assert record.arrived
    assert record.warnings == ("SB away",)


def test_a_new_request_ends_the_overlap_early_and_is_refused_before() -> None:
    driver = begun()
    driver.until(State.READY)
    driver.feed(NewRequest())
    assert not driver.answers[-1].accepted
    assert "m1" in driver.answers[-1].words
    switched = driver.until(State.CONVERGING)
    driver.feed(NewRequest())
    record = driver.finish()
    assert record.overlap_ended
    assert record.ended_at is not None
    assert record.ended_at < (switched.record.switched_at or 0.0) + 5


def test_a_target_that_does_not_claim_in_time_is_gone_on_from_with_a_warning() -> None:
    driver = begun()
    driver.replies = lambda _d, e: None
    driver.until(State.SETTLING)
    driver.replies = lambda _d, e: OwnerObserved("A", False) if type(e).__name__ == "ObserveOwner" else None
    record = driver.finish()
    assert "was not seen to claim the gateway in time; its owner was A" in record.warnings[0]
    assert record.phase is Phase.COMPLETED


def test_a_vm_that_does_not_appear_after_a_pinned_switch_is_named() -> None:
    driver = begun(moves_gateway=False)
    driver.until(State.SETTLING)
    driver.replies = lambda _d, e: OwnerObserved("A", False) if type(e).__name__ == "ObserveOwner" else None
    assert "the VM was not seen on B in time" in driver.finish().warnings[0]


def test_another_owner_at_the_end_needs_a_person() -> None:
    driver = begun()
    driver.replies = lambda _d, e: TransfersEnded("A", True) if isinstance(e, EndTransfers) else None
    record = driver.finish()
    assert record.phase is Phase.FAILED
    assert record.reason.startswith("A owns the gateway, not B")
    assert record.owner == "A"


def test_an_illegal_event_raises_with_the_story_so_far() -> None:
    driver = begun()
    run = driver.until(State.READY)
    with pytest.raises(IllegalTransition, match=r"Armed cannot happen in ready(.|\n)*ready is recorded"):
        advance(run, Armed(), 1.0)
    with pytest.raises(IllegalTransition, match="nothing before"):
        advance(resume(a_record(), ROUTER), Armed(), 1.0)


def test_a_phase_change_clears_what_was_waited_for() -> None:
    run = in_state(State.READY, a_record(waits_for="the VM's arrival on B"))
    assert advance(run, VmArrived(), 1020.0).run.record.waits_for == ""
