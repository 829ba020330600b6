from __future__ import annotations

from dataclasses import replace

import pytest

from ovnmig.core.effects import Arm, Commit, CommitKind, EndTransfers
from ovnmig.core.events import Event, Finished, VmArrived
from ovnmig.core.invariants import record_problems, run_problems, step_problems
from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord, Phase
from ovnmig.core.run import Run, Step
from ovnmig.core.states import State
from ovnmig.core.transfer import TransferState
from tests.core.machine import ROUTER, a_record, in_state, status


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nb_transactions": 4}, "4 effect transactions; 3 are the limit"),
        ({"switched_at": 1.0, "phase": Phase.ROLLING_BACK}, "switched, and yet rolling-back"),
        ({"phase": Phase.CONVERGING}, "converging without a switch"),
        ({"phase": Phase.ROLLED_BACK}, "rolled-back with ended_at None"),
        ({"ended_at": 1.0}, "requested with ended_at 1.0"),
        ({"phase": Phase.FAILED, "ended_at": 1.0}, "failed without a reason"),
    ],
)
def test_a_record_that_cannot_be_is_named(changes: dict[str, object], words: str) -> None:
    assert words in record_problems(a_record(**changes))


def test_a_sound_record_has_no_problem() -> None:
    assert record_problems(a_record()) == ()


def test_a_state_and_its_record_must_agree() -> None:
    assert run_problems(in_state(State.READY, a_record())) == ()
    assert run_problems(Run(a_record(phase=Phase.READY), State.COPYING, ROUTER)) == (
        "in state copying with phase ready",
    )
    assert run_problems(Run(a_record(phase=Phase.SWITCHING), State.SETTLING, ROUTER)) == (
        "settling without a switch",
    )
    assert run_problems(Run(a_record(phase=Phase.READY), State.RESUMED, ROUTER)) == ()


def commit(kind: CommitKind, record: MigrationRecord | None = None) -> Commit:
    return Commit(kind, record or a_record())


FINAL = Finished({Leg.GATEWAY: status(Leg.GATEWAY, TransferState.FINAL)})


@pytest.mark.parametrize(
    ("before", "event", "after", "effects", "words"),
    [
        (State.READY, VmArrived(), State.ARMING, (commit(CommitKind.RECORD),), "1 commits ordered in arming"),
        (State.FINISHING, FINAL, State.COMMITTING, (), "0 commits ordered in committing"),
        (
            State.FINISHING,
            FINAL,
            State.COMMITTING,
            (commit(CommitKind.SWITCH), Arm()),
            "acts before it has written down",
        ),
        (
            State.FINISHING,
            VmArrived(),
            State.COMMITTING,
            (commit(CommitKind.SWITCH),),
            "switches before the entries are on the target",
        ),
        (
            State.FINISHING,
            Finished({}),
            State.COMMITTING,
            (commit(CommitKind.SWITCH),),
            "switches before the entries are on the target",
        ),
        (State.READY, VmArrived(), State.ARMING, (EndTransfers(),), "ends transfers in arming"),
        (
            State.READY,
            VmArrived(),
            State.MARKING,
            (commit(CommitKind.RECORD, a_record(nb_transactions=9)),),
            "9 effect transactions; 3 are the limit",
        ),
    ],
)
def test_a_step_that_breaks_a_promise_is_named(
    before: State, event: Event, after: State, effects: tuple[Arm | Commit | EndTransfers, ...], words: str
) -> None:
    step = Step(in_state(after, a_record()), effects, "")
    assert words in step_problems(in_state(before, a_record()), event, step)


def test_the_rows_are_never_restored_after_the_switch() -> None:
    before = in_state(State.CONVERGING, a_record())
    step = Step(in_state(State.RESTORING, a_record()), (commit(CommitKind.RESTORE),), "")
    problems = step_problems(before, VmArrived(), step)
    assert "restores the rows after the switch" in problems
    assert "forgot the switch" in problems


def test_an_end_is_final() -> None:
    before = in_state(State.COMPLETED, a_record())
    after = replace(in_state(State.CONVERGING, a_record()))
    assert "left the end: completed -> converging" in step_problems(before, VmArrived(), Step(after, (), ""))


def test_a_sound_step_has_no_problem() -> None:
    before = in_state(State.FINISHING, a_record())
    step = Step(in_state(State.COMMITTING, a_record()), (commit(CommitKind.SWITCH),), "")
    assert step_problems(before, FINAL, step) == ()
