from __future__ import annotations

from itertools import pairwise
from math import gcd

from devenv.demo.soakplan import FAULTS, TEARDOWNS_S, steps


def test_each_move_begins_where_the_last_one_ended_and_all_chassis_are_visited() -> None:
    made = steps(7)
    assert made[0].source == "a"
    assert all(a.target == b.source for a, b in pairwise(made))
    assert {step.target for step in made} == {"a", "b", "c"}


def test_twenty_moves_meet_every_fault_and_every_teardown() -> None:
    made = steps(20)
    assert {step.fault for step in made} == set(FAULTS)
    assert {step.teardown_s for step in made} == set(TEARDOWNS_S)


def test_in_time_each_fault_meets_each_teardown() -> None:
    assert gcd(len(FAULTS), len(TEARDOWNS_S)) == 1
    met = {(step.fault, step.teardown_s) for step in steps(len(FAULTS) * len(TEARDOWNS_S))}
    assert len(met) == len(set(FAULTS)) * len(set(TEARDOWNS_S))
