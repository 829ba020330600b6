"""The table of keys against a plain dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.conntrack.keytable import KeyTable

_KEYS = st.lists(st.integers(2, 40) | st.integers(2, (1 << 64) - 1), max_size=60)
_STEPS = st.lists(st.tuples(st.booleans(), _KEYS), max_size=12)


def _array(keys: list[int]) -> np.ndarray:
    return np.array(keys, dtype=np.uint64)


@given(_STEPS)
def test_it_holds_what_was_added_and_not_removed_with_its_value(steps: list[tuple[bool, list[int]]]) -> None:
    table, plain = KeyTable(1), dict[int, int]()
    for number, (adds, keys) in enumerate(steps, 1):
        if adds:
            at = table.add(_array(keys))
            table.columns[0][at] = number
            plain.update(dict.fromkeys(keys, number))
        else:
            table.remove(_array(keys))
            for key in keys:
                plain.pop(key, None)
        asked = _array([*keys, *plain, 41])
        at = table.find(asked)
        assert len(table) == len(plain)
        assert table.holds(asked).tolist() == [key in plain for key in asked.tolist()]
        assert table.columns[0][at[at >= 0]].tolist() == [plain[k] for k in asked.tolist() if k in plain]
    taken = table.taken()
    held = dict(zip(table.keys_at(taken).tolist(), table.columns[0][taken].tolist(), strict=True))
    assert held == plain


def test_it_grows_with_its_rows_and_does_not_fill_with_what_left() -> None:
    table = KeyTable(1)
    keys = np.random.default_rng(1).integers(2, 1 << 63, 100_000, dtype=np.uint64)
    for start in range(0, keys.size, 700):
        part = keys[start : start + 700]
        at = table.add(part)
        table.columns[0][at] = part + np.uint64(1)
        table.marks[at] = 1
    at = table.find(keys)
    assert (table.columns[0][at] == keys + np.uint64(1)).all()
    assert (table.marks[at] == 1).all()
    assert not table.holds(keys ^ np.uint64(1 << 63)).any()
    table.remove(keys[10:])
    for start in range(0, 2_000_000, 50_000):
        passing = np.arange(start + 2, start + 50_002, dtype=np.uint64)
        table.add(passing)
        table.remove(passing)
    assert len(table) == 10
    assert table.marks.size < 1 << 19
    assert (table.columns[0][table.find(keys[:10])] == keys[:10] + np.uint64(1)).all()


def test_the_two_numbers_it_cannot_hold_are_held_as_others() -> None:
    table = KeyTable()
    assert not table.holds(_array([0, 1])).any()
    table.add(_array([0, 1]))
    assert table.holds(_array([0, 1])).all()
    table.remove(_array([0]))
    assert table.holds(_array([0, 1])).tolist() == [False, True]


def test_no_keys_are_no_trouble() -> None:
    table = KeyTable()
    assert not table.add(_array([])).size
    table.remove(_array([]))
    assert not table.find(_array([])).size
    assert not table.taken().size
