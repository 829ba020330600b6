from __future__ import annotations

from typing import Any

import pytest

from devenv.demo.soakcount import gaps, longest_ms, sessions, table


def lost(kind: str) -> dict[str, object]:
    return {"vm": "vm1", "kind": kind, "family": 4, "port": 1, "why": "ConnectionResetError: reset"}


def test_what_failed_and_what_neither_ended_nor_failed_is_lost() -> None:
    noted: dict[str, Any] = {
        "vm1": {"opened": {"echo": 5, "udp": 2}, "ended": {"echo": 3, "udp": 2}, "lost": [lost("echo")]},
        "vm2": {"opened": {"echo": 1}, "ended": {"echo": 1}, "lost": []},
    }
    told = sessions(noted)
    assert told["opened"] == {"echo": 6, "udp": 2}
    assert told["ended"] == {"echo": 4, "udp": 2}
    assert told["lost"] == 2
    assert [one["why"] for one in told["lost_list"]] == [
        "ConnectionResetError: reset",
        "it neither ended nor failed",
    ]


def test_what_was_born_while_nothing_could_be_replicated_is_told_apart() -> None:
    young, old = lost("echo") | {"opened": 5.0}, lost("echo") | {"opened": 1.0}
    noted = {"vm1": {"opened": {"echo": 2}, "ended": {}, "lost": [young, old]}}
    told = sessions(noted, [(4.0, 6.0)])
    assert (told["lost_list"], told["lost_before_replicated_list"]) == ([old], [young])


def test_the_longest_silence_counts_only_what_is_inside_the_span() -> None:
    assert longest_ms([0.0, 9.0, 9.5, 20.0], 8.0, 10.0) == pytest.approx(1000)
    assert longest_ms([], 8.0, 10.0) == pytest.approx(2000)


def test_gaps_are_told_by_probe_beside_its_baseline() -> None:
    replies = [n / 100 for n in range(1000)] + [10.5 + n / 100 for n in range(500)]
    told = gaps({"vm1": {"replies": {"probe": replies}}}, [(9.0, 12.0), (12.0, 14.0)], (1.0, 8.0))
    assert told["probe"]["baseline_p50_ms"] == pytest.approx(10, abs=0.2)
    assert told["probe"]["gap_max_ms"] == pytest.approx(510, abs=0.2)


def test_the_table_tells_what_was_lost_and_left() -> None:
    done = {
        "moves": 3,
        "duration_s": 90,
        "faults": {"none": 3},
        "opened": {"echo": 4},
        "ended": {"echo": 3},
        "lost": 1,
        "lost_before_replicated": 0,
        "leftovers": 2,
        "control": {"lost": 7},
        "gap": {"p": {"baseline_p50_ms": 1, "gap_p50_ms": 2, "gap_p99_ms": 3, "gap_max_ms": 4}},
    }
    assert "lost: 1; left behind: 2; the control lost 7" in table(done)
