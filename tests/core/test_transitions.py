from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from ovnmig.core.advance import IllegalTransition, advance
from ovnmig.core.events import EVENT_TYPES, Event, Recovered
from ovnmig.core.invariants import step_problems
from ovnmig.core.migration import Phase
from ovnmig.core.run import Run
from ovnmig.core.states import COMMIT_STATES, State
from ovnmig.core.transitions import TABLE, Row
from tests.core.machine import ROUTER, a_record, event_variants, in_state, record_variants

CELLS = Path(__file__).with_name("cells.txt")


def cells() -> str:
    """Every (state, event) pair on a line: where it may lead, or ``cannot happen``."""
    lines = []
    for state, event in product(State, EVENT_TYPES):
        targets = dict.fromkeys(row.target.value for row in TABLE.get((state, event), ()))
        lines.append(f"{state.value:13} {event.__name__:16} {' | '.join(targets) or 'cannot happen'}")
    return "\n".join(lines) + "\n"


def test_every_cell_is_what_the_reviewed_list_says() -> None:
    """Rewrite with OVNMIG_REWRITE=1; commit the change only if you understand every line of it."""
    if os.environ.get("OVNMIG_REWRITE"):
        CELLS.write_text(cells())
    assert cells() == CELLS.read_text()


def samples(state: State, event_type: type[Event]) -> Iterator[tuple[Run, Event]]:
    """Runs and events that between them meet every condition of a cell."""
    for record in record_variants():
        for event in event_variants(record):
            if type(event) is event_type:
                for misses in (0, 2):
                    yield in_state(state, record, misses), event
    if state is State.RESUMED:
        for phase in (Phase.PREPARING, Phase.READY, Phase.ROLLING_BACK):
            yield Run(a_record(phase=phase), state, ROUTER), Recovered(9)
        yield Run(a_record(phase=Phase.SWITCHING, switched_at=1010.0), state, ROUTER), Recovered(9)


@pytest.mark.parametrize("key", list(TABLE), ids=lambda key: f"{key[0].value}-{key[1].__name__}")
def test_every_event_is_taken_as_the_table_says_and_every_row_can_be_taken(
    key: tuple[State, type[Event]],
) -> None:
    rows = TABLE[key]
    taken = set()
    for run, event in samples(*key):
        step = advance(run, event, 1020.0)
        assert step.run.story[-1].endswith(step.says)
        row = next(row for row in rows if (row.says, row.target) == (step.says, step.run.state))
        taken.add(row.says + row.target)
    assert taken == {row.says + row.target for row in rows}


@pytest.mark.parametrize("state", list(State))
def test_every_other_event_raises_with_the_story(state: State) -> None:
    record = a_record()
    for event in {type(event): event for event in event_variants(record)}.values():
        if (state, type(event)) not in TABLE:
            with pytest.raises(IllegalTransition, match="cannot happen"):
                advance(in_state(state, record), event, 1020.0)


@pytest.mark.parametrize("key", list(TABLE), ids=lambda key: f"{key[0].value}-{key[1].__name__}")
def test_the_last_row_of_a_cell_is_unconditional_and_only_the_last(key: tuple[State, type]) -> None:
    rows: tuple[Row, ...] = TABLE[key]
    assert [row.when is None for row in rows] == [False] * (len(rows) - 1) + [True]


@pytest.mark.parametrize("state", sorted(COMMIT_STATES))
def test_a_state_with_a_commit_in_flight_knows_nothing_but_its_answer(state: State) -> None:
    assert {event.__name__ for (source, event) in TABLE if source is state} == {"Committed", "CommitFailed"}


def test_no_sentence_of_a_row_is_empty_or_says_the_same_as_its_sibling() -> None:
    for rows in TABLE.values():
        sentences = [row.says for row in rows]
        assert all(sentences)
        assert len(set(zip(sentences, (row.target for row in rows), strict=True))) == len(rows)


def test_no_switch_is_ordered_before_the_entries_are_there_whatever_the_record() -> None:
    for record in record_variants():
        for event in event_variants(record):
            run = in_state(State.FINISHING, record)
            if (State.FINISHING, type(event)) in TABLE:
                assert step_problems(run, event, advance(run, event, 1020.0)) == ()
