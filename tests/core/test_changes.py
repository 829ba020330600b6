from __future__ import annotations

import pytest

from ovnmig.core import changes, document, placement, topology
from ovnmig.core.document import UdnDocument
from ovnmig.core.effects import CommitKind
from ovnmig.core.migration import MigrationRecord, Phase
from ovnmig.core.udn import Member
from tests.core import worlds
from tests.core.machine import a_record

BEFORE = (Member(20, "A"), Member(10, "C"))


def planned(kind: CommitKind, members: tuple[Member, ...], record: MigrationRecord) -> changes.Planned:
    return changes.plan(kind, UdnDocument(worlds.spec(), members, record), record, 7)


def chassis(members: tuple[Member, ...]) -> list[str]:
    return [member.chassis for member in placement.by_rank(members)]


@pytest.mark.parametrize("kind", list(CommitKind))
def test_every_transaction_verifies_the_epoch_and_writes_the_record(kind: CommitKind) -> None:
    record = a_record(members_before=BEFORE)
    plan = planned(kind, BEFORE, record)
    assert plan.change.expected_epoch == 7
    assert document.decode(plan.change.document or "") == plan.document
    ends = kind in (CommitKind.CLOSE, CommitKind.RESTORE)
    assert (plan.document.migration is None) is ends
    assert (record in plan.document.ended) is ends
    assert plan.change.bump_nb_cfg is (kind is CommitKind.PREPARE)


def test_a_record_only_commit_leaves_rows_and_ports_alone() -> None:
    plan = planned(CommitKind.RECORD, BEFORE, a_record())
    assert plan.change.rows is None
    assert plan.change.ports == ()
    assert plan.document.members == BEFORE


def test_the_three_effect_transactions_take_the_target_in_raise_it_and_trim_the_set() -> None:
    record = a_record(members_before=BEFORE, owner="B")
    prepared = planned(CommitKind.PREPARE, BEFORE, record)
    assert chassis(prepared.document.members) == ["A", "C", "B"]
    switched = planned(CommitKind.SWITCH, prepared.document.members, record)
    assert chassis(switched.document.members) == ["B", "A", "C"]
    closed = planned(CommitKind.CLOSE, switched.document.members, record)
    assert chassis(closed.document.members) == ["B", "A"]
    for plan in (prepared, switched, closed):
        assert plan.change.rows == topology.rows(worlds.spec(), plan.document.members)
        assert len(plan.change.ports) == 1


def test_a_restore_puts_the_members_back_exactly() -> None:
    record = a_record(members_before=BEFORE)
    assert planned(CommitKind.RESTORE, (*BEFORE, Member(5, "B")), record).document.members == BEFORE


def test_closing_never_moves_the_gateway_away_from_who_owns_it() -> None:
    members = (Member(30, "B"), Member(20, "A"), Member(10, "C"))
    record = a_record(owner="A", phase=Phase.FAILED)
    assert chassis(planned(CommitKind.CLOSE, members, record).document.members)[0] == "A"
    stranger = a_record(owner="Z")
    assert chassis(planned(CommitKind.CLOSE, members, stranger).document.members)[0] == "B"
    nobody = a_record(owner="", source="")
    assert chassis(planned(CommitKind.CLOSE, members, nobody).document.members)[0] == "B"


@pytest.mark.parametrize("kind", list(CommitKind))
def test_a_gateway_that_stays_keeps_its_members_in_every_transaction(kind: CommitKind) -> None:
    assert planned(kind, BEFORE, a_record(moves_gateway=False)).document.members == BEFORE
