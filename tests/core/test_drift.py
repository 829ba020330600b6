from __future__ import annotations

from dataclasses import replace

from ovnmig.core.drift import Delete, Diff, Insert, Update, diff, strangers, words
from ovnmig.core.rows import Parent, Row
from ovnmig.core.topology import rows
from ovnmig.core.udn import Member
from ovnmig.core.views import NbView, OwnedRow
from tests.core.worlds import router, router_port, spec

PAIR = (Member(20, "b"), Member(10, "a"))


def stored(wanted: tuple[Row, ...]) -> list[OwnedRow]:
    """What a driver reads back after writing ``wanted``."""
    found = []
    for row in wanted:
        holder = None if row.parent is None else row.parent.uuid or f"uuid-{row.parent.role}"
        found.append(OwnedRow(f"uuid-{row.role}", "blue", row.role, row.table, row.columns, holder))
    return found


def test_rows_as_wanted_are_no_difference() -> None:
    wanted = rows(spec(), PAIR)
    difference = diff(stored(wanted), wanted)
    assert not difference
    assert words(difference) == ()


def test_everything_is_inserted_at_first_and_deleted_at_last() -> None:
    wanted = rows(spec(), PAIR)
    assert diff((), wanted) == Diff(inserts=tuple(Insert(row) for row in wanted))
    gone = diff(stored(wanted), ())
    assert {d.existing.role for d in gone.deletes} == {row.role for row in wanted}
    assert "NAT row 'snat:10.0.0.0/24' is not wanted any more" in words(gone)


def test_sets_compare_without_order_and_optional_values_with_scalars() -> None:
    before = [OwnedRow("u", "blue", "p", "T", {"networks": ("b", "a"), "tag": (5,)}, None)]
    assert not diff(before, [Row("p", "T", {"networks": ("a", "b"), "tag": 5})])


def test_a_changed_vip_changes_rows_in_place() -> None:
    wanted = rows(spec(), PAIR)
    moved = tuple(
        replace(row, columns={**row.columns, "external_ip": "172.16.1.101"})
        if row.role == "snat:10.0.0.0/24"
        else row
        for row in wanted
    )
    (update,) = diff(stored(wanted), moved).updates
    assert update.columns == {"external_ip": "172.16.1.101"}
    assert words(Diff(updates=(update,))) == (
        "NAT row 'snat:10.0.0.0/24': external_ip is '172.16.1.100', '172.16.1.101' is wanted",
    )


def test_a_column_the_live_schema_lacks_is_left_out() -> None:
    before = [OwnedRow("u", "blue", "p", "NAT", {"type": "snat"}, None)]
    assert not diff(before, [Row("p", "NAT", {"type": "snat", "external_port_range": "1-2"})])


def test_of_a_map_only_our_keys_are_compared_set_and_removed() -> None:
    options = {"snat-ct-zone": "1", "theirs": "x"}
    before = [OwnedRow("u", "blue", "router", "Logical_Router", {"options": options}, None)]
    wanted = Row("router", "Logical_Router", {"options": {"snat-ct-zone": "2"}})
    difference = diff(before, [wanted])
    assert difference.updates == (Update(before[0], keys={"options": {"snat-ct-zone": "2"}}),)
    assert words(difference) == ("Logical_Router row 'router': options:snat-ct-zone is '1', '2' is wanted",)
    off = diff(before, [replace(wanted, columns={"options": {}})])
    assert off.updates[0].keys == {"options": {"snat-ct-zone": None}}
    assert words(off) == ("Logical_Router row 'router': options:snat-ct-zone is '1', absent is wanted",)


def test_a_map_that_is_not_there_as_a_map_counts_as_empty() -> None:
    before = [OwnedRow("u", "blue", "router", "Logical_Router", {"options": ()}, None)]
    difference = diff(before, [Row("router", "Logical_Router", {"options": {"snat-ct-zone": "2"}})])
    assert words(difference) == (
        "Logical_Router row 'router': options:snat-ct-zone is absent, '2' is wanted",
    )


def test_a_second_row_of_one_role_is_surplus() -> None:
    row = OwnedRow("u1", "blue", "p", "NAT", {}, None)
    twin = replace(row, uuid="u2")
    assert diff([twin, row], [Row("p", "NAT", {})]) == Diff(deletes=(Delete(twin),))


def test_a_row_in_the_wrong_place_gets_its_parent_back() -> None:
    wanted = rows(spec(), PAIR)
    elsewhere = [
        replace(row, parent_uuid="another") if row.role in ("inner-lsp", "localnet") else row
        for row in stored(wanted)
    ]
    difference = diff(elsewhere, wanted)
    assert [u.parent for u in difference.updates] == [
        Parent("ports", uuid="uuid-net", table="Logical_Switch"),
        Parent("ports", role="external-switch"),
    ]
    assert words(difference) == (
        "Logical_Switch_Port row 'inner-lsp' hangs in the wrong place",
        "Logical_Switch_Port row 'localnet' hangs in the wrong place",
    )


def test_a_row_whose_parent_is_to_be_made_anew_moves_there() -> None:
    wanted = rows(spec(), PAIR)
    without = [row for row in stored(wanted) if row.role != "external-switch"]
    orphaned = [replace(row, parent_uuid=None) if row.role == "localnet" else row for row in without]
    difference = diff(orphaned, wanted)
    assert [insert.row.role for insert in difference.inserts] == ["external-switch"]
    assert {update.existing.role for update in difference.updates} == {"localnet", "external-lsp"}


def test_sets_are_shown_in_order() -> None:
    before = [OwnedRow("u", "blue", "p", "T", {"networks": ()}, None)]
    assert words(diff(before, [Row("p", "T", {"networks": ("b", "a")})])) == (
        "T row 'p': networks is [], [a, b] is wanted",
    )


def test_a_candidate_of_somebody_else_is_named() -> None:
    port = replace(router_port("ovnmig-blue-ext"), gateway_chassis=(("z", 99), ("b", 20), ("a", 7)))
    nb = NbView(routers=(router("ovnmig-blue", router_port("other"), port),))
    assert strangers(nb, "ovnmig-blue-ext", PAIR) == (
        "Gateway_Chassis of 'z' with priority 99 was added by somebody else",
    )
    assert strangers(nb, "ovnmig-green-ext", PAIR) == ()
