from __future__ import annotations

import pytest

from ovnmig.core.advance import IllegalTransition, advance, resume, start
from ovnmig.core.effects import (
    Commit,
    ObserveTarget,
    WatchArrival,
)
from ovnmig.core.events import (
    Armed,
    Committed,
    VmArrived,
)
from ovnmig.core.migration import Phase
from ovnmig.core.states import State
from tests.core.machine import ROUTER, a_record, begun, in_state, phases


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
