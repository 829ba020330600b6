from __future__ import annotations

from dataclasses import replace

from ovnmig.core.migration import MigrationRequest, Phase, TransferMode
from ovnmig.core.transfer import Counts
from ovnmig.core.udn import Problem
from ovnmig.engine.protocols import DryRun
from ovnmig.service.wire_migration import (
    NO_TRANSFER_WARNING,
    MigrationCreate,
    dry_run_answer,
    migration_answer,
    phase_seconds,
    warnings_of,
)
from tests.test_metrics import RECORD


def test_the_defaults_of_a_request_are_those_of_the_core() -> None:
    body = MigrationCreate(udn="blue", target="b")
    assert body.to_core("key") == MigrationRequest(udn="blue", target="b", idempotency_key="key")


def test_a_phase_entered_twice_adds_up_and_the_present_one_is_left_out() -> None:
    times = ((Phase.COPYING, 1.0), (Phase.READY, 3.0), (Phase.COPYING, 4.0), (Phase.READY, 4.5))
    record = replace(RECORD, phase_times=times)
    assert phase_seconds(record) == {"copying": 2.5, "ready": 1.0}
    assert migration_answer(record).phase_at["ready"].timestamp() == 4.5


def test_a_clock_that_went_back_gives_no_negative_time() -> None:
    record = replace(RECORD, phase_times=((Phase.COPYING, 5.0), (Phase.READY, 4.0)))
    assert phase_seconds(record) == {"copying": 0.0}


def test_warnings_name_what_was_not_moved() -> None:
    plain = replace(RECORD, counts=Counts())
    assert warnings_of(plain) == []
    assert warnings_of(replace(plain, transfer=TransferMode.NONE)) == [NO_TRANSFER_WARNING]
    told = replace(plain, warnings=("said by the engine",), arrived_early=True, counts=Counts(lost=2))
    found = warnings_of(told)
    assert found[0] == "said by the engine"
    assert any("before 'ready'" in w for w in found)
    assert any("2 entries were lost" in w for w in found)


def test_a_dry_run_is_possible_only_without_problems() -> None:
    request = MigrationRequest("blue", "b", transfer=TransferMode.NONE)
    fine = dry_run_answer(DryRun((), ("do it",)), request)
    assert (fine.possible, fine.plan, fine.warnings) == (True, ["do it"], [NO_TRANSFER_WARNING])
    refused = dry_run_answer(DryRun((Problem("c", "m", "f"),), ()), MigrationRequest("blue", "b"))
    assert (refused.possible, refused.problems[0].field, refused.warnings) == (False, "f", [])


def test_times_that_have_not_come_are_null() -> None:
    answer = migration_answer(replace(RECORD, switched_at=None, ended_at=105.0))
    assert answer.switched_at is None
    assert answer.ended_at is not None
    assert answer.model_dump(mode="json")["created_at"] == "1970-01-01T00:01:40Z"
