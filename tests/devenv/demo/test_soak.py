from __future__ import annotations

from typing import Any

from devenv.demo.soak import verdict
from devenv.demo.soakplan import FAULTS


def done(**changes: Any) -> dict[str, Any]:
    well: dict[str, Any] = {
        "moves": len(FAULTS),
        "lost": 0,
        "lost_list": [],
        "leftover_list": [],
        "drift_seen": 1,
        "control": {"lost": 20},
    }
    return well | changes


def test_a_soak_that_lost_nothing_and_left_nothing_is_well() -> None:
    assert verdict(done()) == []


def test_lost_sessions_are_named_up_to_twenty() -> None:
    one = {"vm": "vm1", "kind": "udp", "family": 6, "why": "nothing came back"}
    words = verdict(done(lost=25, lost_list=[one] * 25))
    assert words[0] == "vm1 udp v6: nothing came back"
    assert words[-1] == "and 5 more sessions lost"


def test_a_control_that_loses_nothing_proves_nothing() -> None:
    assert "proves nothing" in verdict(done(control={"lost": 0}))[0]


def test_leftovers_and_drift_that_nobody_reported_are_named() -> None:
    assert verdict(done(leftover_list=["a row"], drift_seen=0)) == [
        "a row",
        "foreign flips were not reported as drift",
    ]
