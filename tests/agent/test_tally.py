"""Whatever is sent however often, every distinct entry is counted once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.agent.frames import Frame, Kind
from ovnmig.agent.tally import NAMED_MAX, Tally
from ovnmig.conntrack import Batch, Ledger
from ovnmig.core.transfer import Counts
from tests.bench.conntrack import sessions

ALL = sessions(40)
KEYS = ALL.keys().tolist()


def pick(numbers: set[int]) -> Batch:
    return ALL.pick(np.array([one in numbers for one in range(40)]))


def ack(words: list[str] | None = None, **counts: int) -> Frame:
    return Frame(Kind.ACK, 1, {**counts, "refused": words or []})


def send(tally: Tally, numbers: set[int], refused: Mapping[int, str], zone: str = "z") -> None:
    """Send and have answered; ``refused`` by number."""
    first, again = tally.fresh(zone, pick(numbers))
    for batch, is_first in ((first, True), (again, False)):
        if len(batch):
            no = {KEYS[n]: why for n, why in refused.items() if KEYS[n] in batch.keys().tolist()}
            tally.settle(zone, batch, is_first, ack(created=len(batch) - len(no)), no)


def adds_up(counts: Counts) -> bool:
    return counts.read == (
        counts.created + counts.identical + counts.replaced + counts.lost + counts.refused_total
    )


@given(st.lists(st.tuples(st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39))), max_size=8))
def test_the_fates_add_up_to_the_distinct_entries(rounds: list[tuple[set[int], set[int]]]) -> None:
    tally = Tally()
    for numbers, refused in rounds:
        send(tally, numbers, dict.fromkeys(refused & numbers, "full"))
    counts = tally.counts()
    assert counts.read == len(set().union(*(numbers for numbers, _ in rounds)))
    assert adds_up(counts)
    assert counts.kinds == ({"tcp/4": counts.read} if counts.read else {}) or counts.kinds == {"tcp/4": 0}


def test_a_refused_entry_that_gets_in_later_is_created() -> None:
    tally = Tally()
    send(tally, {1, 2}, {1: "full", 2: "held"})
    assert tally.counts().refused == {"full": 1, "held": 1}
    assert tally.refused_keys("z") == {KEYS[1], KEYS[2]}
    send(tally, {1, 2}, {1: "held"})
    assert tally.counts() == Counts(read=2, created=1, refused={"held": 1}, kinds={"tcp/4": 2})


def test_a_session_born_again_that_is_refused_is_refused_and_tried_again() -> None:
    tally = Tally()
    send(tally, {1, 2}, {})
    send(tally, {1}, {1: "held"})
    assert tally.counts() == Counts(read=2, created=1, refused={"held": 1}, kinds={"tcp/4": 2})
    assert tally.refused_keys("z") == {KEYS[1]}
    tally.lose([("z", KEYS[2])])
    send(tally, {2}, {2: "full"})
    assert tally.counts() == Counts(read=2, refused={"held": 1, "full": 1}, kinds={"tcp/4": 2})


def test_after_the_hand_over_a_refusal_changes_nothing() -> None:
    tally = Tally()
    send(tally, {1}, {})
    tally.settle("z", pick({1}), False, ack(), {KEYS[1]: "held"}, over=True)
    assert tally.counts() == Counts(read=1, created=1, kinds={"tcp/4": 1})


def test_the_same_tuple_in_two_zones_is_two_entries() -> None:
    tally = Tally()
    send(tally, {1}, {1: "full"}, "x")
    send(tally, {1}, {}, "y")
    assert tally.counts() == Counts(read=2, created=1, refused={"full": 1}, kinds={"tcp/4": 2})


def test_what_was_never_answered_is_waiting_and_lost_when_the_transfer_is_over() -> None:
    tally = Tally()
    first, _ = tally.fresh("z", pick({1, 2, 3}))
    assert tally.counts() == Counts(read=3, kinds={"tcp/4": 3})
    assert tally.counts(over=True).lost == 3
    tally.take_back("z", first)
    assert tally.counts().read == 0
    send(tally, {1, 2, 3}, {})
    assert tally.counts().created == 3


def test_a_lost_entry_that_is_there_in_the_end_is_created() -> None:
    tally = Tally()
    send(tally, {1, 2}, {2: "full"})
    tally.lose([("z", KEYS[1]), ("z", KEYS[1]), ("z", KEYS[2])])
    assert (tally.counts().created, tally.counts().lost) == (0, 1)
    send(tally, {1}, {})
    assert (tally.counts().created, tally.counts().lost) == (1, 0)


def test_what_cannot_be_carried_at_all_counts_as_read_and_refused() -> None:
    tally = Tally()
    send(tally, {1}, {})
    for _ in range(3):
        tally.unmovable({"an unknown attribute": 2})
    assert tally.counts().read == 3
    assert tally.counts().refused == {"an unknown attribute": 2}


def test_names_are_kept_once_and_not_without_end() -> None:
    tally = Tally()
    first, _ = tally.fresh("z", pick({1}))
    tally.settle("z", first, True, ack([str(n) for n in range(500)], created=1), {})
    tally.settle("z", first, False, ack(["0", "1"]), {})
    assert tally.words == [str(n) for n in range(NAMED_MAX)]


def test_sessions_that_are_over_leave_no_trace_but_their_counts() -> None:
    tally = Tally()
    send(tally, {1, 2, 3}, {3: "taken"})
    tally.forget("z", pick({2, 3}).keys())
    assert tally.refused_keys("z") == set()
    first, again = tally.fresh("z", pick({1, 2, 3}))
    assert (len(first), len(again)) == (2, 1)
    tally.take_back("z", first)
    left = Ledger()
    left.record(pick({7}))
    tally.retain("z", left)
    assert len(tally.fresh("z", pick({1}))[0]) == 1
