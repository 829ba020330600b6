"""The record of a real VM's moves, and its clock's times as the machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from devenv.guest.qemurecord import Moved, add_move, folder, machine_times, moves


def move(stopped_s: float, pause_s: float, before_s: float) -> Moved:
    return Moved("a", "b", stopped_s, stopped_s + pause_s, 30, 900, before_s, before_s + pause_s)


def test_without_a_move_times_are_the_clocks_and_its_offset() -> None:
    assert list(machine_times([1.0, 2.5], [], 100.0)) == [101.0, 102.5]


def test_after_each_pause_the_clock_is_later_by_that_pause() -> None:
    done = [move(110.0, 2.0, 100.0), move(120.0, 1.0, 102.0)]
    # The clock showed 10 when the VM stood still the first time, and 18 the second time.
    assert list(machine_times([5.0, 10.0, 10.5, 18.0, 18.5], done, 100.0)) == [
        105.0,
        110.0,
        112.5,
        120.0,
        121.5,
    ]


def test_moves_are_remembered_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVNMIG_RUN", str(tmp_path))
    assert moves("vm 1") == []
    folder("vm 1").mkdir(parents=True)
    done = [move(1.0, 0.1, 0.5), move(2.0, 0.1, 0.6)]
    for one in done:
        add_move("vm 1", one)
    assert moves("vm 1") == done
    assert moves("another") == []
