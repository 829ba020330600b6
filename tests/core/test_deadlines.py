from __future__ import annotations

import pytest

from ovnmig.core.deadlines import Limits, deadline
from ovnmig.core.migration import Trigger
from ovnmig.core.run import Run
from ovnmig.core.states import State
from ovnmig.core.transitions import TABLE
from tests.core.machine import ROUTER, a_record, in_state

LIMITS = Limits(preparing_s=1, copying_s=2, ready_s=3, switching_s=4)


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (State.PREPARING, 1001.0),
        (State.COPYING, 1002.0),
        (State.READY, 1003.0),
        (State.ARMING, 1004.0),
        (State.FINISHING, 1004.0),
        (State.SETTLING, 1014.0),
        (State.CONVERGING, 1070.0),
        (State.ROLLING_BACK, None),
        (State.ENDING, None),
        (State.COMPLETED, None),
    ],
)
def test_each_state_has_the_limit_of_its_phase(state: State, due: float | None) -> None:
    assert deadline(in_state(state, a_record()), LIMITS) == due


def test_a_manual_ready_has_no_limit() -> None:
    assert deadline(in_state(State.READY, a_record(trigger=Trigger.MANUAL)), LIMITS) is None


def test_the_table_takes_the_deadline_in_every_state_that_has_one_and_in_no_other() -> None:
    takes = {state for state, event in TABLE if event.__name__ == "DeadlinePassed"}
    assert takes == {state for state in State if deadline(in_state(state, a_record()), LIMITS) is not None}


def test_a_switched_record_without_a_time_counts_from_its_phase() -> None:
    assert deadline(Run(a_record(), State.SETTLING, ROUTER), LIMITS) == 1004.0
