from __future__ import annotations

import pytest

from ovnmig.core.effects import (
    Arm,
    Commit,
    CommitKind,
    Effect,
    EndTransfers,
    Finish,
)
from ovnmig.core.events import (
    Armed,
    CancelOrdered,
    CommitFailed,
    DeadlinePassed,
    Event,
    Finished,
    OwnerObserved,
    TransfersEnded,
    VmArrived,
)
from ovnmig.core.legs import Leg
from ovnmig.core.migration import Phase
from ovnmig.core.states import State
from tests.core.machine import LIMITS, Driver, begun, status


def test_a_pinned_gateway_moves_only_the_ports_zone_and_arms_nothing() -> None:
    driver = begun(moves_gateway=False, source="C")
    orders: list[type] = []
    driver.replies = lambda _d, effect: orders.append(type(effect))
    record = driver.finish()
    assert record.phase is Phase.COMPLETED
    assert Arm not in orders
    assert Finish in orders


def test_an_announcement_that_cannot_be_armed_leaves_the_gateway_where_it_is() -> None:
    driver = begun()
    driver.replies = lambda _d, e: Armed("connection refused") if isinstance(e, Arm) else None
    record = driver.finish()
    assert record.phase is Phase.ROLLED_BACK
    assert "could not be armed" in record.reason


def test_a_final_delta_without_acknowledgement_leaves_the_gateway_where_it_is() -> None:
    driver = begun()
    unfinished = Finished({Leg.GATEWAY: status(Leg.GATEWAY)})
    driver.replies = lambda _d, e: unfinished if isinstance(e, Finish) else None
    record = driver.finish()
    assert record.phase is Phase.ROLLED_BACK
    assert "not acknowledged" in record.reason


def test_switching_that_takes_too_long_before_the_commit_rolls_back() -> None:
    driver = begun()
    run = driver.until(State.ARMING)
    driver.now = run.record.phase_since + LIMITS.switching_s
    driver.feed(DeadlinePassed())
    assert driver.finish().phase is Phase.ROLLED_BACK


@pytest.mark.parametrize("kind", [kind for kind in CommitKind if kind is not CommitKind.PREPARE])
def test_a_database_that_is_away_for_a_while_delays_every_commit_and_loses_none(kind: CommitKind) -> None:
    failures = [CommitFailed("not connected")] * 3

    def replies(_driver: Driver, effect: Effect) -> Event | None:
        return failures.pop() if isinstance(effect, Commit) and effect.kind is kind and failures else None

    driver = begun(overlap_s=1.0)
    driver.replies = replies
    if kind is CommitKind.RESTORE:
        driver.until(State.READY)
        driver.feed(CancelOrdered())
    record = driver.finish()
    assert failures == []
    assert record.phase is (Phase.ROLLED_BACK if kind is CommitKind.RESTORE else Phase.COMPLETED)
    assert record.nb_transactions == (2 if kind is CommitKind.RESTORE else 3)


def test_a_vm_already_on_the_target_keeps_its_binding_when_the_gateway_is_rolled_back() -> None:
    driver = begun()
    driver.until(State.COPYING)
    driver.feed(VmArrived())
    driver.replies = lambda _d, e: TransfersEnded("A", True) if isinstance(e, EndTransfers) else None
    driver.feed(CancelOrdered())
    assert driver.finish().arrived


def test_when_sb_cannot_be_read_at_the_rollback_the_last_arrival_seen_holds() -> None:
    driver = begun()
    driver.until(State.COPYING)
    driver.feed(VmArrived())
    driver.replies = lambda _d, e: (
        TransfersEnded("", None, "SB away") if isinstance(e, EndTransfers) else None
    )
    driver.feed(CancelOrdered())
    record = driver.finish()
    assert record.arrived
    assert record.warnings == ("SB away",)


def test_a_target_that_does_not_claim_in_time_is_gone_on_from_with_a_warning() -> None:
    driver = begun()
    driver.replies = lambda _d, e: None
    driver.until(State.SETTLING)
    driver.replies = lambda _d, e: OwnerObserved("A", False) if type(e).__name__ == "ObserveOwner" else None
    record = driver.finish()
    assert "was not seen to claim the gateway in time; its owner was A" in record.warnings[0]
    assert record.phase is Phase.COMPLETED


def test_a_vm_that_does_not_appear_after_a_pinned_switch_is_named() -> None:
    driver = begun(moves_gateway=False)
    driver.until(State.SETTLING)
    driver.replies = lambda _d, e: OwnerObserved("A", False) if type(e).__name__ == "ObserveOwner" else None
    assert "the VM was not seen on B in time" in driver.finish().warnings[0]


def test_a_gateway_that_nobody_owns_at_the_end_needs_a_person() -> None:
    driver = begun()
    driver.replies = lambda _d, e: TransfersEnded("", False) if isinstance(e, EndTransfers) else None
    assert driver.finish().reason.startswith("nobody owns the gateway, not B")


def test_a_claim_wiped_for_a_moment_and_an_agent_that_missed_the_end_are_looked_at_again() -> None:
    looks = [TransfersEnded("", False), TransfersEnded("B", True, "agent of A: timeout")]
    driver = begun()
    driver.replies = lambda _d, e: looks.pop() if isinstance(e, EndTransfers) and looks else None
    record = driver.finish()
    assert (record.phase, record.warnings, looks) == (Phase.COMPLETED, (), [])


def test_an_owner_that_cannot_be_seen_at_the_end_is_the_one_seen_last() -> None:
    driver = begun()
    driver.replies = lambda _d, e: (
        TransfersEnded("", None, "SB away") if isinstance(e, EndTransfers) else None
    )
    record = driver.finish()
    assert record.phase is Phase.COMPLETED
    assert record.owner == "B"


def test_another_owner_at_the_end_needs_a_person() -> None:
    driver = begun()
    driver.replies = lambda _d, e: TransfersEnded("A", True) if isinstance(e, EndTransfers) else None
    record = driver.finish()
    assert record.phase is Phase.FAILED
    assert record.reason.startswith("A owns the gateway, not B")
    assert record.owner == "A"
