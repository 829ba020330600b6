from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ovnmig.core.events import CancelOrdered, SwitchOrdered
from ovnmig.core.migration import MigrationRecord, Phase, TransferMode, Trigger
from ovnmig.core.states import ENDED_STATES, State
from tests.core.machine import Driver, a_record

KINDS: dict[str, Callable[[], MigrationRecord]] = {
    "follow": a_record,
    "pinned": lambda: a_record(moves_gateway=False, source="C"),
    "by hand": lambda: a_record(port=None, port_source=""),
    "without transfer": lambda: a_record(transfer=TransferMode.NONE),
    "manual": lambda: a_record(trigger=Trigger.MANUAL),
}


def play(
    record: MigrationRecord, crash_before: int | None, cancel_in: State | None = None
) -> tuple[Driver, int]:
    """Play a migration; before event number ``crash_before`` the controller dies and a new one reads the
    database."""
    driver = Driver()
    driver.begin(record)
    steps = 0
    while driver.run is not None and driver.run.state not in ENDED_STATES:
        steps += 1
        if steps == crash_before:
            driver.crash_and_resume(driver.saved[-1])
        if driver.run.state is cancel_in:
            driver.feed(CancelOrdered())
        elif driver.run.state is State.READY and record.trigger is Trigger.MANUAL:
            driver.feed(SwitchOrdered())
        else:
            assert driver.tick(), driver.run.story
        assert steps < 500, driver.run.story
    return driver, steps


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_before_any_step_still_completes_with_three_transactions(kind: str) -> None:
    _, steps = play(KINDS[kind](), None)
    for crash in range(1, steps + 1):
        driver, _ = play(KINDS[kind](), crash)
        assert driver.run is not None
        assert driver.run.record.phase is Phase.COMPLETED, driver.run.story
        assert driver.run.record.nb_transactions == 3
        assert sum(record.ended_at is not None for record in driver.saved) == 1


@pytest.mark.parametrize(
    "state", [State.PREPARING, State.COPYING, State.READY, State.ARMING, State.FINISHING]
)
def test_a_crash_after_a_recorded_cancel_still_rolls_back(state: State) -> None:
    _, steps = play(a_record(), None, cancel_in=state)
    for crash in range(1, steps + 1):
        driver, _ = play(a_record(), crash, cancel_in=state)
        assert driver.run is not None
        assert driver.run.record.phase is Phase.ROLLED_BACK
        assert driver.saved[-1].switched_at is None


@pytest.mark.parametrize("kind", KINDS)
def test_two_crashes_in_a_row_at_every_written_record_complete(kind: str) -> None:
    whole, _ = play(KINDS[kind](), None)
    for record in whole.saved[:-1]:
        driver = Driver(now=5000.0)
        driver.crash_and_resume(record)
        driver.crash_and_resume(record)
        driver.arrives = True
        for _ in range(200):
            assert driver.run is not None
            if driver.run.state in ENDED_STATES:
                break
            if driver.run.state is State.READY and record.trigger is Trigger.MANUAL:
                driver.feed(SwitchOrdered())
            else:
                driver.tick()
        assert driver.run is not None
        assert driver.run.record.phase is Phase.COMPLETED


def test_a_record_without_a_configuration_number_takes_the_present_one() -> None:
    driver = Driver(nb_cfg=42)
    driver.crash_and_resume(a_record(phase=Phase.PREPARING, nb_cfg=0))
    assert driver.run is not None
    assert driver.run.record.nb_cfg == 42


def test_a_controller_away_for_long_gives_a_phase_its_whole_time_again() -> None:
    driver = Driver(now=99999.0)
    driver.crash_and_resume(a_record(phase=Phase.PREPARING, phase_since=1000.0))
    assert driver.finish().phase is Phase.COMPLETED


def test_a_controller_away_for_longer_than_the_overlap_closes_at_once() -> None:
    driver = Driver(now=99999.0)
    record = a_record(phase=Phase.SWITCHING, switched_at=1010.0, nb_transactions=2)
    driver.crash_and_resume(replace(record, overlap_s=60.0))
    done = driver.finish()
    assert done.phase is Phase.COMPLETED
    assert done.ended_at is not None
    assert done.ended_at < 100010.0
