from __future__ import annotations

from dataclasses import replace

import pytest

from ovnmig.core import replication
from ovnmig.core.document import UdnDocument
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.placement import numbered
from ovnmig.core.replication import CopyState, Order, Standby, Standing, Wanted
from ovnmig.core.transfer import Counts, Peer, TransferState, TransferStatus
from ovnmig.core.udn import Refused, Replication
from tests.core import worlds
from tests.core.machine import a_record

SPEC = replace(worlds.spec(), replication=Replication.CONTINUOUS)
UDN = SPEC.name


def document(*members: str, spec: object = SPEC) -> UdnDocument:
    return UdnDocument(spec, numbered(members))  # type: ignore[arg-type]


def pairs(wanted: Wanted) -> set[tuple[str, str]]:
    return {(one.source, one.target) for one in wanted.transfers}


def ended(wanted: Wanted) -> set[tuple[str, str]]:
    return {(one.chassis, one.id.removeprefix(f"{replication.mark(UDN)}-keep-")) for one in wanted.end}


def test_the_owner_sends_to_every_standby_and_everything_of_other_roles_is_ended() -> None:
    wanted = replication.wanted(document("A", "B", "C"), "A", 60, None)
    assert pairs(wanted) == {("A", "B"), ("A", "C")}
    assert ended(wanted) == {("B", "A"), ("B", "C"), ("C", "A"), ("C", "B")}
    assert {one.chassis for one in wanted.arm if one.id == replication.standby_id(UDN)} == {"A", "B", "C"}
    assert [one.chassis for one in wanted.arm if one.id == replication.owner_id(UDN)] == ["A"]
    assert wanted.disarm == (
        Order("B", replication.owner_id(UDN)),
        Order("C", replication.owner_id(UDN)),
    )
    assert wanted.raise_owner == ""


def test_while_nobody_owns_the_gateway_everything_stays() -> None:
    assert replication.wanted(document("A", "B"), "", 60, None) == Wanted()


@pytest.mark.parametrize(("owned_s", "after_s"), [(0.0, 1.0), (0.75, 0.25), (1.0, 0.0), (9.0, 0.0)])
def test_who_took_over_without_us_is_put_first_once_it_is_sure(owned_s: float, after_s: float) -> None:
    wanted = replication.wanted(document("A", "B"), "B", owned_s, None)
    assert (wanted.raise_owner, wanted.raise_after_s) == ("B", after_s)
    assert pairs(wanted) == {("B", "A")}
    assert ended(wanted) == {("A", "B")}


def test_an_owner_outside_the_set_serves_its_members_and_is_not_put_first() -> None:
    wanted = replication.wanted(document("A", "B"), "X", 60, None)
    assert pairs(wanted) == {("X", "A"), ("X", "B")}
    assert wanted.raise_owner == ""


def moving(source: str, target: str, *, gateway: bool = True) -> MigrationRecord:
    return a_record(source=source, target=target, moves_gateway=gateway)


@pytest.mark.parametrize(("owner", "expected"), [("A", {("A", "B")}), ("C", {("C", "B")})])
def test_a_migration_serves_its_own_two_ends_and_the_third_is_kept_in_step(
    owner: str, expected: set[tuple[str, str]]
) -> None:
    wanted = replication.wanted(document("A", "B", "C"), owner, 60, moving("A", "C"))
    assert pairs(wanted) == expected
    assert ("A", "C") in ended(wanted)
    assert wanted.raise_owner == ""


def test_a_migration_from_nowhere_orders_nothing_of_nobody() -> None:
    wanted = replication.wanted(document("A", "B"), "A", 60, moving("", "B"))
    assert {one.chassis for one in wanted.end} == {"A", "B"}


def test_a_migration_of_a_vm_alone_leaves_the_standing_transfers_as_they_are() -> None:
    running = moving("A", "C", gateway=False)
    assert pairs(replication.wanted(document("A", "B"), "A", 60, running)) == {("A", "B")}


def test_without_replication_everything_ends() -> None:
    off = document("A", "B", spec=worlds.spec())
    wanted = replication.wanted(off, "A", 60, None)
    assert wanted == replication.nothing(off)
    assert ended(wanted) == {("A", "B"), ("B", "A")}
    assert (wanted.transfers, wanted.arm) == ((), ())
    assert len(wanted.disarm) == 4


def test_ids_hold_no_name_of_a_udn_and_differ() -> None:
    ids = {replication.keep_id(udn, "a") for udn in ("blue", "blue/", "\ud800", 'b "l" ue')}
    assert len(ids) == 4
    assert all("/" not in one and '"' not in one for one in ids)


def test_a_standing_order_takes_both_zones_of_the_router() -> None:
    one = Standing("id", "A", "B")
    order = replication.transfer_order(one, SPEC, 7, "dp", Peer("B", "192.0.2.2", 8789))
    assert (order.id, order.udn, order.epoch, order.keep) == ("id", UDN, 7, True)
    assert [zone.key for zone in order.zones] == [f"snat:ovnmig-{UDN}", f"dnat:ovnmig-{UDN}"]
    assert all(zone.datapath == "dp" for zone in order.zones)


def status(state: TransferState, reason: str = "", synced_s: float | None = 0.5) -> TransferStatus:
    counts = Counts(read=9, created=6, lost=1, refused={"taken": 2})
    return TransferStatus("id", state, counts, pending=3, reason=reason, synced_s=synced_s, put_back=4)


def test_a_copy_in_step_gives_no_alarm() -> None:
    found = replication.judge("B", status(TransferState.IN_STEP), "", 100.0)
    assert found == Standby("B", CopyState.IN_STEP, 3, 99.5, refused=2, lost=1, put_back=4)
    assert replication.alarm(found) == ""


@pytest.mark.parametrize(
    ("given", "problem", "words"),
    [
        (status(TransferState.FAILED, "refused"), "", "failed: refused"),
        (status(TransferState.FAILED), "", "failed: the transfer failed without a reason"),
        (status(TransferState.CONNECTING, "no route"), "", "connecting: no route"),
        (status(TransferState.COPYING), "", "copying"),
        (status(TransferState.IN_STEP, synced_s=4.0), "", "behind: the standby has confirmed nothing"),
        (status(TransferState.IN_STEP, synced_s=None), "", "behind: the standby has confirmed nothing"),
        (status(TransferState.IN_STEP), "agent of B: gone", "unreachable: agent of B: gone"),
        (status(TransferState.COPYING), "agent of B: gone", "copying: agent of B: gone"),
        (None, "agent of A: gone", "unreachable: agent of A: gone"),
        (None, "", "connecting"),
    ],
)
def test_every_other_copy_is_an_alarm_with_its_reason(
    given: TransferStatus | None, problem: str, words: str
) -> None:
    found = replication.judge("B", given, problem, 100.0)
    assert replication.alarm(found).startswith(f"the copy on B is {words}")


def test_a_copy_never_confirmed_has_no_time() -> None:
    found = replication.judge("B", status(TransferState.COPYING, synced_s=None), "", 100.0)
    assert found.synced_at is None


def test_replication_without_a_standby_is_refused() -> None:
    request = replace(worlds.REQUEST, replication=Replication.CONTINUOUS, standby_count=0)
    with pytest.raises(Refused, match="needs a standby to replicate to"):
        worlds.spec(request)
    assert worlds.spec(replace(request, standby_count=1)).replication is Replication.CONTINUOUS
