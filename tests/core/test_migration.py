from __future__ import annotations

from ovnmig.core import document
from ovnmig.core.document import UdnDocument
from ovnmig.core.migration import ENDED, MigrationRequest, Phase, Trigger
from ovnmig.core.transfer import Counts
from tests.core import worlds
from tests.core.machine import a_record


def test_the_ended_phases_are_the_last_ones() -> None:
    assert {Phase.COMPLETED, Phase.ROLLED_BACK, Phase.FAILED} == ENDED


def test_a_request_asks_for_the_safe_things_unless_told_otherwise() -> None:
    request = MigrationRequest("blue", "B")
    assert request.trigger is Trigger.AUTO
    assert request.overlap_s == 60.0
    assert not request.allow_interruption
    assert request.gateway is None


def test_a_record_with_everything_in_it_comes_back_from_the_database_as_it_was() -> None:
    record = a_record(
        counts=Counts(read=3, refused={"port-taken": 1}, kinds={"tcp/4": 3}),
        phase_times=((Phase.REQUESTED, 1.0), (Phase.PREPARING, 2.5)),
        warnings=("careful \u201cquoted\u201d",),
        port_options_before={"requested-chassis": "A"},
        switched_at=3.5,
        idempotency_key="k 1",
        owner="B",
    )
    stored = UdnDocument(worlds.spec(), record.members_before, record)
    assert document.decode(document.encode(stored)).migration == record
