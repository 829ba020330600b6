from __future__ import annotations

from dataclasses import replace

from ovnmig.core.transfer import AnnounceOrder, Counts, Peer, TransferOrder, ZoneKind, ZoneRef


def test_a_zones_wire_name_is_its_kind_and_the_name_on_every_node() -> None:
    assert ZoneRef(ZoneKind.SNAT, "ovnmig-blue", "dp").key == "snat:ovnmig-blue"
    assert ZoneRef(ZoneKind.PORT, "vm 1").key == "port:vm 1"


def test_all_refused_entries_are_counted_whatever_the_reason() -> None:
    assert Counts(refused={"port-taken": 2, "table-full": 3}).refused_total == 5
    assert Counts().refused_total == 0


def test_an_order_given_later_or_by_another_controller_asks_for_the_same_work() -> None:
    signed = {"epoch": 9, "migration": "m1", "deployment": "house"}
    transfer = TransferOrder("m1", "blue", 1, Peer("b", "192.0.2.2", 8789), (ZoneRef(ZoneKind.SNAT, "r"),))
    assert transfer.same_work(replace(transfer, **signed))  # type: ignore[arg-type]
    assert not transfer.same_work(replace(transfer, keep=True))
    announce = AnnounceOrder("m1", "blue", 1, "cr", "ln", "0a:58:ac:10:01:64", ("172.16.1.100",))
    assert announce.same_work(replace(announce, **signed))  # type: ignore[arg-type]
    assert not announce.same_work(replace(announce, vlan=7))
