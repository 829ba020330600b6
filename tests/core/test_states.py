from __future__ import annotations

from ovnmig.core.migration import ENDED, Phase
from ovnmig.core.states import COMMIT_STATES, ENDED_STATES, PHASE_OF, SWITCHED_STATES, State


def test_every_state_has_a_phase_but_the_one_that_keeps_the_databases() -> None:
    assert set(PHASE_OF) == set(State)
    assert [state for state, phase in PHASE_OF.items() if phase is None] == [State.RESUMED]


def test_every_phase_is_shown_by_some_state() -> None:
    assert {phase for phase in PHASE_OF.values() if phase is not None} == set(Phase)


def test_the_named_sets_agree_with_the_phases() -> None:
    assert {PHASE_OF[state] for state in ENDED_STATES} == set(ENDED)
    assert not COMMIT_STATES & ENDED_STATES
    assert {PHASE_OF[state] for state in SWITCHED_STATES} == {Phase.SWITCHING, Phase.CONVERGING}
