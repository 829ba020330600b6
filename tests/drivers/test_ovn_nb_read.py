"""Rows as the core sees them: marks decide what is ours."""

from __future__ import annotations

from ovnmig.drivers import ovn_nb_read as read
from tests.nb.world import change, deletion, house, insert, made_spec


def marked(**marks: str) -> list[object]:
    return ["map", [[key.replace("_", "-"), value] for key, value in marks.items()]]


async def test_only_rows_with_all_marks_of_this_deployment_are_ours() -> None:
    async with house() as (server, [driver]):
        server.transact(
            insert("Logical_Switch", name="s1", external_ids=marked(ovnmig_owner="house")),
            insert("Logical_Switch", name="s2", external_ids=marked(ovnmig_owner="x", ovnmig_role="switch")),
            insert("Logical_Switch", name="s3", external_ids=marked(ovnmig_udn="blue", ovnmig_role="switch")),
            insert(
                "Logical_Switch",
                name="s4",
                external_ids=marked(ovnmig_owner="house", ovnmig_udn="blue", ovnmig_role="switch"),
            ),
        )
        view = await driver.view()
        assert [row.role for row in view.owned] == ["switch"]
        assert view.records == ()


async def test_a_record_with_a_damaged_epoch_is_shown_and_guarded_as_epoch_zero() -> None:
    async with house() as (server, [driver]):
        marks = marked(ovnmig_owner="house", ovnmig_udn="blue", ovnmig_role="record", ovnmig_epoch="x")
        server.transact(insert("Address_Set", name="ovnmig_x", external_ids=marks))
        (record,) = (await driver.view()).records
        assert (record.udn, record.epoch, record.document) == ("blue", 0, "")
        assert (await driver.apply(deletion("blue", 0))).wrote
        assert (await driver.view()).records == ()


async def test_every_owned_row_knows_the_row_that_holds_it() -> None:
    async with house() as (_, [driver]):
        spec = made_spec(await driver.view())
        await driver.apply(change(spec))
        view = await driver.view()
        uuid_of = {row.role: row.uuid for row in view.owned}
        parents = {row.role: row.parent_uuid for row in view.owned}
        assert parents["router"] is None
        assert parents["inner-lsp"] == spec.switch_uuid
        assert parents["gateway:a"] == uuid_of["external-port"]
        assert parents["localnet"] == uuid_of["external-switch"]


async def test_an_empty_database_is_an_empty_picture() -> None:
    async with house() as (server, [driver]):
        for table in ("NB_Global", "Logical_Switch", "Logical_Router", "Address_Set"):
            server.transact({"op": "delete", "table": table, "where": []})
        view = await driver.view()
        assert (view.switches, view.routers, view.nb_cfg) == ((), (), 0)


def test_the_copy_follows_every_column_that_is_written_and_no_large_one() -> None:
    assert "addresses" not in read.COLUMNS["Address_Set"]
    assert set(read.COLUMNS["NAT"]) == {
        "type",
        "external_ip",
        "logical_ip",
        "external_port_range",
        "external_ids",
    }
