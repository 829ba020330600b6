from __future__ import annotations

from dataclasses import replace

from ovnmig.core.migration import Phase
from ovnmig.core.run import staged
from ovnmig.core.states import State
from tests.core.machine import a_record


def test_a_new_phase_is_stamped_and_listed() -> None:
    record = staged(a_record(waits_for="x"), State.PREPARING, 1001.0)
    assert (record.phase, record.phase_since, record.waits_for) == (Phase.PREPARING, 1001.0, "")
    assert record.phase_times == ((Phase.PREPARING, 1001.0),)
    assert record.ended_at is None


def test_a_state_of_the_same_phase_changes_nothing() -> None:
    record = staged(a_record(), State.ARMING, 1001.0)
    assert staged(record, State.COMMITTING, 1002.0) is record
    assert staged(record, State.RESUMED, 1002.0) is record


def test_an_end_is_stamped_once() -> None:
    record = staged(a_record(), State.COMPLETED, 1003.0)
    assert record.ended_at == 1003.0
    assert staged(replace(record), State.COMPLETED, 1004.0).ended_at == 1003.0
