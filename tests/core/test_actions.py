from __future__ import annotations

import pytest

from ovnmig.core.deadlines import deadline
from ovnmig.core.effects import (
    Commit,
    Copy,
    Effect,
    ObserveTarget,
)
from ovnmig.core.events import (
    CommitFailed,
    CopyObserved,
    Event,
    TargetObserved,
    VmArrived,
)
from ovnmig.core.legs import Leg
from ovnmig.core.migration import Phase, TransferMode, Trigger
from ovnmig.core.states import State
from ovnmig.core.transfer import TransferState
from tests.core.machine import LIMITS, Driver, a_record, begun, phases, ready_target, status


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


def test_without_transfer_nothing_is_copied_and_no_way_back_is_kept() -> None:
    driver = begun(transfer=TransferMode.NONE)
    record = driver.finish()
    assert "copying" not in phases(record)
    assert record.counts.read == 0
    assert record.nb_transactions == 3


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


def test_a_southbound_database_that_is_away_is_waited_out_and_counts_no_failure() -> None:
    left = [CopyObserved(away="connection refused")] * 10
    driver = begun()
    driver.until(State.COPYING)
    driver.replies = lambda _d, e: left.pop() if isinstance(e, Copy) and left else None
    driver.tick()
    assert driver.run is not None
    assert driver.run.record.waits_for == "the Southbound database: connection refused"
    assert driver.finish().phase is Phase.COMPLETED
    assert left == []


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
