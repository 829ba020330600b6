from __future__ import annotations

from dataclasses import replace

import pytest

from ovnmig.core import legs
from ovnmig.core.legs import Leg
from ovnmig.core.migration import TransferMode
from ovnmig.core.transfer import Counts, TransferState, TransferStatus
from tests.core.machine import ROUTER, a_record, status


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, (Leg.GATEWAY, Leg.PORT)),
        ({"transfer": TransferMode.NONE}, ()),
        ({"moves_gateway": False}, (Leg.PORT,)),
        ({"port": None, "port_source": ""}, (Leg.GATEWAY,)),
        ({"port_source": "B"}, (Leg.GATEWAY,)),
        ({"source": ""}, (Leg.PORT,)),
    ],
)
def test_the_legs_are_those_with_something_to_move(
    changes: dict[str, object], wanted: tuple[Leg, ...]
) -> None:
    record = a_record(**changes)
    assert legs.forward_legs(record) == wanted
    assert legs.has_way_back(record) is (Leg.GATEWAY in wanted)


def test_each_leg_has_its_own_name_source_and_zones() -> None:
    record = a_record(port_source="C")
    gateway, port, back = (legs.plan(record, leg, ROUTER, "dp") for leg in Leg)
    assert [(plan.id, plan.source, plan.target) for plan in (gateway, port, back)] == [
        ("m1", "A", "B"),
        ("m1-port", "C", "B"),
        ("m1-back", "B", "A"),
    ]
    assert [zone.key for zone in gateway.zones] == ["snat:ovnmig-blue", "dnat:ovnmig-blue"]
    assert [zone.required for zone in gateway.zones] == [True, False]
    assert {zone.datapath for zone in gateway.zones} == {"dp"}
    assert gateway.zones == back.zones
    assert [(zone.key, zone.required) for zone in port.zones] == [("port:vm1", False)]


def test_a_port_leg_without_a_port_is_a_defect() -> None:
    with pytest.raises(ValueError, match="moves no port"):
        legs.plan(a_record(port=None), Leg.PORT, ROUTER, "")


def test_counts_are_summed_by_reason_and_kind_and_the_way_back_is_not_counted() -> None:
    one = Counts(
        read=3, created=1, identical=1, replaced=0, lost=1, refused={"port-taken": 1}, kinds={"tcp/4": 3}
    )
    two = Counts(read=2, created=2, refused={"port-taken": 1, "table-full": 1}, kinds={"udp/6": 2})
    statuses = {
        Leg.GATEWAY: TransferStatus("m1", TransferState.FINAL, one),
        Leg.PORT: TransferStatus("m1-port", TransferState.FINAL, two),
        Leg.BACK: TransferStatus("m1-back", TransferState.IN_STEP, one),
    }
    counts = legs.counts_of(statuses)
    assert (counts.read, counts.created, counts.identical, counts.lost) == (5, 3, 1, 1)
    assert counts.refused == {"port-taken": 2, "table-full": 1}
    assert counts.kinds == {"tcp/4": 3, "udp/6": 2}
    assert legs.counts_of({Leg.GATEWAY: None}) == Counts()


def test_a_gateway_leg_that_is_unknown_or_failed_must_be_started_anew() -> None:
    record = a_record()
    assert legs.unfit(record, {Leg.GATEWAY: None}) == "the agent of A knows no transfer m1"
    failed = status(Leg.GATEWAY, TransferState.FAILED, "peer gone")
    assert legs.unfit(record, {Leg.GATEWAY: failed}) == "peer gone"
    assert "without a reason" in legs.unfit(record, {Leg.GATEWAY: status(Leg.GATEWAY, TransferState.FAILED)})
    assert legs.unfit(record, {Leg.GATEWAY: status(Leg.GATEWAY)}) == ""
    assert legs.unfit(a_record(moves_gateway=False), {}) == ""


@pytest.mark.parametrize(
    ("gateway", "port", "there", "lost", "words"),
    [
        (None, None, False, False, "the copy of the gateway's entries (0 pending)"),
        (TransferState.COPYING, None, False, False, "the copy of the gateway's entries (0 pending)"),
        (TransferState.IN_STEP, None, False, False, ""),
        (TransferState.FINAL, None, False, False, ""),
        (TransferState.IN_STEP, None, True, False, "the copy of the VM's own zone"),
        (TransferState.IN_STEP, None, True, True, ""),
        (TransferState.IN_STEP, TransferState.COPYING, True, False, "the copy of the VM's own zone"),
        (TransferState.IN_STEP, TransferState.FAILED, True, False, ""),
        (TransferState.IN_STEP, TransferState.IN_STEP, True, False, ""),
    ],
)
def test_in_step_is_everything_that_can_be_copied_now(
    gateway: TransferState | None, port: TransferState | None, there: bool, lost: bool, words: str
) -> None:
    statuses = {
        Leg.GATEWAY: None if gateway is None else status(Leg.GATEWAY, gateway),
        Leg.PORT: None if port is None else status(Leg.PORT, port),
    }
    assert legs.lagging(a_record(), statuses, there, lost) == words


def test_only_an_acknowledged_final_delta_is_final() -> None:
    record = a_record()
    assert legs.final(record, {Leg.GATEWAY: status(Leg.GATEWAY, TransferState.FINAL)})
    assert not legs.final(record, {Leg.GATEWAY: status(Leg.GATEWAY)})
    assert not legs.final(record, {})
    assert legs.final(a_record(moves_gateway=False), {})


def test_entries_that_cannot_move_are_named_up_to_a_bound_and_those_of_the_way_back_are_not() -> None:
    def refused(leg: Leg, *words: str) -> TransferStatus:
        return replace(status(leg), refused_entries=words)

    many = tuple(f"table full: tcp {n}" for n in range(legs.UNMOVED_MAX))
    statuses = {Leg.PORT: refused(Leg.PORT, "a", "b"), Leg.BACK: refused(Leg.BACK, "c"), Leg.GATEWAY: None}
    assert legs.unmoved_of(statuses) == ("a", "b")
    assert legs.unmoved_of({Leg.GATEWAY: refused(Leg.GATEWAY, *many), Leg.PORT: statuses[Leg.PORT]}) == many
