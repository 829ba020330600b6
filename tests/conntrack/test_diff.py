"""The ledger against plain dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.conntrack.diff import Ledger
from ovnmig.conntrack.messages import Status
from ovnmig.conntrack.records import Batch, Group, merge
from ovnmig.conntrack.shape import shape_of
from ovnmig.conntrack.spec import L4, Flow, Spec

_SHAPES = [shape_of(Spec(f, Flow(17, L4.PORTS), Status.SRC_NAT)) for f in (2, 10)]
Entry = tuple[int, int, int, int, int]
"""Shape, port, translated port, mark, timeout."""


def _batch(entries: list[Entry]) -> Batch:
    groups = []
    for shape, port, nat, mark, timeout in entries:
        row = np.zeros((1, _SHAPES[shape].width), dtype=np.uint32)
        for name, value in (
            ("orig_sport", port),
            ("nat_src_port", nat),
            ("mark", mark),
            ("timeout", timeout),
        ):
            row[0, _SHAPES[shape].at(name)] = value
        groups.append(Group(_SHAPES[shape], (row & _SHAPES[shape].keep) | _SHAPES[shape].force))
    return merge([Batch(tuple(groups))])


_FEW = st.integers(0, 3)
_ENTRIES = st.lists(
    st.tuples(st.integers(0, 1), _FEW, _FEW, _FEW, _FEW), max_size=12, unique_by=lambda e: (e[0], e[1])
)


def _as_dict(entries: list[Entry]) -> dict[tuple[int, int], Entry]:
    return {entry[:2]: entry for entry in entries}


def _prints(batch: Batch) -> list[int]:
    return sorted(batch.prints().tolist())


@given(_ENTRIES, _ENTRIES)
def test_a_second_dump_is_sorted_into_new_changed_reborn_and_vanished(
    old: list[Entry], now: list[Entry]
) -> None:
    ledger = Ledger()
    ledger.record(_batch(old))
    found = ledger.compare(_batch(now))
    before = _as_dict(old)
    new = [e for e in now if e[:2] not in before]
    reborn = [e for e in now if e[:2] in before and before[e[:2]][2] != e[2]]
    changed = [e for e in now if e[:2] in before and before[e[:2]][2] == e[2] and before[e[:2]][3] != e[3]]
    gone = [e for e in old if e[:2] not in _as_dict(now)]
    assert _prints(found.new) == _prints(_batch(new))
    assert _prints(found.reborn) == _prints(_batch(reborn))
    assert _prints(found.changed) == _prints(_batch(changed))
    assert sorted(found.vanished.tolist()) == sorted(_batch(gone).keys().tolist())
    assert len(found) == len(new) + len(reborn) + len(changed) + len(gone)


@given(_ENTRIES, _ENTRIES)
def test_after_recording_what_differs_nothing_differs(old: list[Entry], now: list[Entry]) -> None:
    ledger = Ledger()
    ledger.record(_batch(old))
    found = ledger.compare(_batch(now))
    ledger.forget(found.vanished)
    for batch in (found.new, found.changed, found.reborn):
        ledger.record(batch)
    assert len(ledger.compare(_batch(now))) == 0
    assert len(ledger) == len(now)


@given(_ENTRIES, _ENTRIES)
def test_a_part_of_a_dump_makes_nothing_vanish(old: list[Entry], now: list[Entry]) -> None:
    ledger = Ledger()
    ledger.record(_batch(old))
    assert ledger.compare(_batch(now), whole=False).vanished.size == 0


def test_recording_twice_in_one_batch_keeps_the_later_one() -> None:
    ledger = Ledger()
    early, late = _batch([(0, 1, 1, 1, 1)]), _batch([(0, 1, 1, 2, 1)])
    ledger.record(merge([early, late]))
    assert len(ledger) == 1
    assert len(ledger.compare(late)) == 0
    assert len(ledger.compare(early).changed) == 1


def test_the_remaining_timeout_makes_no_difference() -> None:
    ledger = Ledger()
    ledger.record(_batch([(0, 1, 1, 1, 1)]))
    assert len(ledger.compare(_batch([(0, 1, 1, 1, 3)]))) == 0


def test_a_ledger_filled_in_many_pieces_is_the_one_filled_at_once() -> None:
    shape = _SHAPES[0]
    values = np.zeros((60_000, shape.width), dtype=np.uint32)
    values[:, shape.at("orig_src")] = np.random.default_rng(1).permutation(60_000)
    whole = Group(shape, (values & shape.keep) | shape.force)
    once, pieces = Ledger(), Ledger()
    once.record(Batch((whole,)))
    for start in range(0, 60_000, 900):
        # each piece repeats a third of the one before it
        part = whole.pick(np.arange(max(0, start - 300), min(start + 900, 60_000)))
        pieces.record(Batch((part,)))
        assert pieces.holds(part.keys()).all()
        assert len(pieces) == min(start + 900, 60_000)
    assert not pieces.holds(whole.keys() ^ np.uint64(1)).any()
    assert np.array_equal(once.keys, pieces.keys)
    assert np.array_equal(once.identities, pieces.identities)
    assert len(pieces.compare(Batch((whole,)))) == 0


def test_a_dump_in_pieces_finds_what_one_whole_finds_and_counts_what_is_sent_meanwhile_as_seen() -> None:
    ledger = Ledger()
    ledger.record(_batch([(0, 1, 1, 1, 1), (0, 2, 1, 1, 1), (0, 3, 1, 1, 1)]))
    ledger.begin()
    assert len(ledger.sift(_batch([(0, 1, 1, 1, 1)]))) == 0
    fresh = _batch([(0, 4, 1, 1, 1)])
    assert len(ledger.sift(fresh).new) == 1
    ledger.record(fresh)
    assert len(ledger.sift(_batch([(0, 2, 1, 2, 1)])).changed) == 1
    assert ledger.unseen().tolist() == _batch([(0, 3, 1, 1, 1)]).keys().tolist()


def test_a_session_that_is_translated_otherwise_is_not_the_one_that_is_read_back() -> None:
    ledger = Ledger()
    ledger.record(_batch([(0, 1, 1, 1, 1), (0, 2, 1, 1, 1)]))
    ledger.begin()
    there = _batch([(0, 1, 1, 1, 9), (0, 2, 2, 1, 1), (0, 3, 1, 1, 1)])
    ledger.tick(there.keys(), there.identities())
    assert ledger.unseen().tolist() == _batch([(0, 2, 1, 1, 1)]).keys().tolist()


def test_what_is_noted_is_held_and_stays_in_doubt_until_it_is_read_back() -> None:
    shape = _SHAPES[0]
    values = np.zeros((60_000, shape.width), dtype=np.uint32)
    values[:, shape.at("orig_src")] = np.arange(60_000)
    whole = Batch((Group(shape, (values & shape.keep) | shape.force),))
    ledger = Ledger()
    for part in whole.split(7_000):
        ledger.note(part.keys(), part.identities())
    assert ledger.holds(whole.keys()).all()
    assert ledger.doubtful(whole.keys()).all()
    assert ledger.matches(whole.keys(), whole.identities()).all()
    first, rest = whole.pick(np.arange(60_000) < 10), whole.pick(np.arange(60_000) >= 10)
    ledger.tick(rest.keys(), rest.identities())
    assert ledger.unseen().tolist() == sorted(first.keys().tolist())
