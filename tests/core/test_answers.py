from __future__ import annotations

import pytest

from ovnmig.core.effects import (
    Commit,
    Effect,
)
from ovnmig.core.events import (
    CancelOrdered,
    CommitFailed,
    Event,
    NewRequest,
    SwitchOrdered,
)
from ovnmig.core.migration import Phase, Trigger
from ovnmig.core.states import State
from tests.core.machine import Driver, begun


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
