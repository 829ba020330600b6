from __future__ import annotations

from ovnmig.core.transfer import Counts, ZoneKind, ZoneRef


def test_a_zones_wire_name_is_its_kind_and_the_name_on_every_node() -> None:
    assert ZoneRef(ZoneKind.SNAT, "ovnmig-blue", "dp").key == "snat:ovnmig-blue"
    assert ZoneRef(ZoneKind.PORT, "vm 1").key == "port:vm 1"


def test_all_refused_entries_are_counted_whatever_the_reason() -> None:
    assert Counts(refused={"port-taken": 2, "table-full": 3}).refused_total == 5
    assert Counts().refused_total == 0
