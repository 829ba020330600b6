from __future__ import annotations

import pytest

from devenv.demo.crash import expectation, in_step, resumed
from devenv.demo.judge import Record
from devenv.demo.plan import Session, sessions
from devenv.demo.report import run_problems
from devenv.guest.shell import ClusterError


def record(to_vm: list[float], to_server: list[float]) -> Record:
    session = next(s for s in sessions() if s.kind == "udp")
    return Record(session, to_vm, to_server, opened=1, settled=2, planned_end=60, ended=True)


def test_the_silence_about_the_crash_tells_when_packets_came_through_again() -> None:
    steady = [1.0 + n / 50 for n in range(450)]  # until 9.98
    late = [10.9 + n / 50 for n in range(300)]
    later = [11.0 + n / 50 for n in range(300)]
    found = resumed([record(steady + later, steady + late), record([9.99, 12.5], [])], crash=10.0)
    assert found == {"out": pytest.approx(10.9), "in": pytest.approx(11.0)}


def test_a_direction_that_stays_silent_is_an_error() -> None:
    with pytest.raises(ClusterError, match="nothing came in any more"):
        resumed([record([9.9], [9.9, 10.8])], crash=10.0)


@pytest.mark.parametrize(
    ("kind", "translated", "expected"),
    [("twin", True, "die"), ("twin", False, "either"), ("push", False, "die"), ("udp", False, "either")],
)
def test_without_replication_translated_sessions_and_pushes_die(
    kind: str, translated: bool, expected: str
) -> None:
    session = Session("s", kind, 4, "vm1")
    assert expectation("no-replication", session, translated) == expected
    assert expectation("replication", session, translated) == "survive"


def test_the_copies_are_in_step_when_there_are_some_and_all_are() -> None:
    assert in_step({"standbys": [{"state": "in-step"}]})
    assert not in_step({"standbys": [{"state": "in-step"}, {"state": "behind"}]})
    assert not in_step({"standbys": []})


def test_a_gateway_that_went_back_by_itself_is_a_problem() -> None:
    run = {
        "name": "replication",
        "sessions": [],
        "rst_seen": 0,
        "icmp_unreachable_seen": 0,
        "private_source_seen": 0,
        "nb_transactions": [],
        "owner": "a",
        "owner_expected": "b",
    }
    assert run_problems(run) == ["a owns the gateway, b took it over"]
    assert run_problems(run | {"owner": "b"}) == []
