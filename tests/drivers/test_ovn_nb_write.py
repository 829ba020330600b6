"""What one change does to rows of others, and what happens when the database moves on in the middle of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from ovs.db.idl import Transaction
from ovsdbapp.backend.ovs_idl import Backend

from ovnmig.core.rows import Change, Committed, EpochConflict, PortEdit
from ovnmig.core.udn import Member, Refused
from ovnmig.drivers import ovn_nb_read as read
from ovnmig.drivers.ovn_nb_write import ApplyChange
from ovnmig.drivers.ovsdb import OvsdbClient
from ovnmig.engine.protocols import DatabaseUnavailable
from tests.core.worlds import REQUEST
from tests.nb.server import DatabaseServer
from tests.nb.world import (
    PAIR,
    change,
    deletion,
    find,
    house,
    insert,
    made_spec,
    populated,
    reference,
    update,
)

CREATE_SWITCH = replace(REQUEST, switch=None, create_switch=True)


class Overtaken(ApplyChange):
    """The change, with somebody else's transaction between its look at the database and its own."""

    def __init__(self, backend: Backend, wanted: Change, meanwhile: Callable[[], object]) -> None:
        super().__init__(backend, "house", wanted, first_epoch=100)
        self.runs = 0
        self._meanwhile = meanwhile

    def run_idl(self, txn: Transaction) -> None:
        super().run_idl(txn)
        self.runs += 1
        if self.runs == 1:
            self._meanwhile()


@asynccontextmanager
async def client() -> AsyncIterator[tuple[DatabaseServer, OvsdbClient]]:
    server = populated()
    made = OvsdbClient(server.remote, "OVN_Northbound", read.COLUMNS, tls=None, timeout_s=5)
    try:
        yield server, made
    finally:
        await made.close()
        server.remove()


async def overtaken(
    made: OvsdbClient, wanted: Change, meanwhile: Callable[[], object]
) -> tuple[Committed, int]:
    """The outcome and how often ovsdbapp had to run the command."""
    commands: list[Overtaken] = []

    def make(backend: Backend) -> Overtaken:
        commands.append(Overtaken(backend, wanted, meanwhile))
        return commands[-1]

    return await made.execute(make), commands[-1].runs


async def apply(made: OvsdbClient, wanted: Change) -> Committed:
    done: Committed = await made.execute(lambda backend: ApplyChange(backend, "house", wanted, 100))
    return done


async def spec_of(made: OvsdbClient, **changes: Any) -> Any:
    view = await made.read(lambda live: read.view(live, "house"))
    return made_spec(view, replace(REQUEST, **changes))


async def test_a_change_overtaken_by_a_harmless_write_is_done_on_the_second_run() -> None:
    async with client() as (server, made):
        edit = PortEdit("vm1", {"requested-chassis": "a,b"}, only_if={"requested-chassis": None})
        wanted = change(await spec_of(made), ports=(edit,))
        other = update("Logical_Switch_Port", "name", "vm1", options=["map", [["theirs", "new"]]])
        done, runs = await overtaken(made, wanted, lambda: server.transact(other))
        assert done.wrote
        assert runs == 2
        options = dict(find(server, "Logical_Switch_Port", name="vm1")["options"][1])
        assert options == {"theirs": "new", "requested-chassis": "a,b"}


async def test_a_change_overtaken_by_another_controller_is_refused_and_not_written() -> None:
    async with client() as (server, made):
        spec = await spec_of(made)
        made_at = await apply(made, change(spec))
        record = find(server, "Address_Set", addresses=["set", []], name=_record_name(server))
        theirs = {**dict(record["external_ids"][1]), "ovnmig-epoch": str(made_at.epoch + 1)}
        other = update(
            "Address_Set",
            "name",
            record["name"],
            external_ids=["map", [list(pair) for pair in theirs.items()]],
        )
        with pytest.raises(EpochConflict):
            await overtaken(
                made, change(replace(spec, vlan=9), made_at.epoch), lambda: server.transact(other)
            )
        assert find(server, "Logical_Switch_Port", name="ovnmig-blue-ln")["tag"] == ["set", []]


async def test_a_change_whose_answer_was_lost_is_recognised_as_done() -> None:
    async with client() as (server, made):
        second = OvsdbClient(server.remote, "OVN_Northbound", read.COLUMNS, tls=None, timeout_s=5)
        spec = await spec_of(made)
        first = await apply(made, change(spec))
        await second.start()
        wanted = change(replace(spec, vlan=9), first.epoch)

        def same_write() -> None:
            second._execute(lambda backend: ApplyChange(backend, "house", wanted, 100))

        done, runs = await overtaken(made, wanted, same_write)
        assert (done.epoch, done.wrote, runs) == (first.epoch + 1, True, 2)
        gone = deletion("blue", done.epoch)

        def same_deletion() -> None:
            second._execute(lambda backend: ApplyChange(backend, "house", gone, 100))

        assert (await overtaken(made, gone, same_deletion))[0].wrote
        await second.close()


async def test_a_change_given_up_before_it_ran_is_never_sent() -> None:
    async with client() as (server, made):
        wanted = change(await spec_of(made))
        before = server.contents()

        def abandoned(backend: Backend) -> ApplyChange:
            order = ApplyChange(backend, "house", wanted, 100)
            order.abandoned = True
            return order

        with pytest.raises(DatabaseUnavailable):
            await made.execute(abandoned)
        assert server.contents() == before


async def test_a_switch_deleted_meanwhile_is_a_refusal_and_not_a_port_lost_without_a_word() -> None:
    async with client() as (server, made):
        wanted = change(await spec_of(made))
        gone = {"op": "delete", "table": "Logical_Switch", "where": [["name", "==", "net"]]}
        with pytest.raises(Refused, match=r"logical switch .* is gone"):
            await overtaken(made, wanted, lambda: server.transact(gone))
        assert not [row for row in server.rows("Logical_Router") if row["name"] == "ovnmig-blue"]


async def test_the_port_of_a_vm_gets_only_the_named_keys() -> None:
    async with house() as (server, [driver]):
        edit = PortEdit("vm1", {"requested-chassis": "a,b", "activation-strategy": "rarp"})
        made = await driver.apply(change(made_spec(await driver.view()), ports=(edit,)))
        port = find(server, "Logical_Switch_Port", name="vm1")
        assert dict(port["options"][1]) == {
            "mcast_flood": "true",
            "requested-chassis": "a,b",
            "activation-strategy": "rarp",
        }
        back = PortEdit("vm1", {"requested-chassis": "b", "activation-strategy": None})
        spec = made_spec(await driver.view())
        await driver.apply(change(replace(spec, vlan=3), made.epoch, ports=(back,), rows=None))
        port = find(server, "Logical_Switch_Port", name="vm1")
        assert dict(port["options"][1]) == {"mcast_flood": "true", "requested-chassis": "b"}


async def test_a_value_somebody_else_wrote_since_is_kept() -> None:
    async with house() as (server, [driver]):
        made = await driver.apply(change(made_spec(await driver.view())))
        server.transact(
            update("Logical_Switch_Port", "name", "vm1", options=["map", [["requested-chassis", "z"]]])
        )
        edit = PortEdit("vm1", {"requested-chassis": "a"}, only_if={"requested-chassis": "a,b"})
        spec = made_spec(await driver.view())
        await driver.apply(change(replace(spec, vlan=3), made.epoch, ports=(edit,)))
        options = find(server, "Logical_Switch_Port", name="vm1")["options"]
        assert options == ["map", [["requested-chassis", "z"]]]


def vm_options(server: DatabaseServer, **options: str) -> None:
    """Somebody else gives vm1 exactly these options; underscores stand for dashes."""
    pairs = [[key.replace("_", "-"), value] for key, value in options.items()]
    server.transact(update("Logical_Switch_Port", "name", "vm1", options=["map", pairs]))


@pytest.mark.parametrize(
    ("before", "meanwhile", "after"),
    [
        # Looked at: another's value, kept. At the commit: ours, to be taken away.
        ({"requested_chassis": "z"}, {"requested_chassis": "a,b"}, []),
        # Looked at: as it is to be. At the commit: ours, to be taken away.
        ({}, {"requested_chassis": "a,b"}, []),
        # Looked at: ours. At the commit: another's, to be kept.
        ({"requested_chassis": "a,b"}, {"requested_chassis": "z"}, [["requested-chassis", "z"]]),
    ],
)
async def test_a_port_is_judged_by_what_it_holds_when_the_change_is_carried_out(
    before: dict[str, str], meanwhile: dict[str, str], after: list[list[str]]
) -> None:
    async with client() as (server, made):
        vm_options(server, **before)
        spec = await spec_of(made)
        edit = PortEdit("vm1", {"requested-chassis": None}, only_if={"requested-chassis": "a,b"})
        done, runs = await overtaken(
            made, change(spec, ports=(edit,)), lambda: vm_options(server, **meanwhile)
        )
        assert (done.wrote, runs) == (True, 2)
        assert find(server, "Logical_Switch_Port", name="vm1")["options"] == ["map", after]


async def test_a_port_that_is_as_wanted_already_must_still_be_so() -> None:
    async with client() as (server, made):
        vm_options(server, requested_chassis="b")
        spec = await spec_of(made)
        wanted = change(spec, ports=(PortEdit("vm1", {"requested-chassis": "b"}),))
        done, runs = await overtaken(made, wanted, lambda: vm_options(server, requested_chassis="a"))
        assert (done.wrote, runs) == (True, 2)
        options = find(server, "Logical_Switch_Port", name="vm1")["options"]
        assert options == ["map", [["requested-chassis", "b"]]]
        count = server.transactions()
        assert not (await apply(made, replace(wanted, expected_epoch=done.epoch))).wrote
        assert server.transactions() == count


async def test_a_switch_that_gets_ports_of_others_meanwhile_is_not_deleted() -> None:
    async with client() as (server, made):
        spec = await made.read(lambda live: made_spec(read.view(live, "house"), CREATE_SWITCH))
        done = await apply(made, change(spec))

        def intrude() -> None:
            server.transact(
                {
                    "op": "mutate",
                    "table": "Logical_Switch",
                    "where": [["name", "==", "blue"]],
                    "mutations": [["ports", "insert", ["set", [reference("p")]]]],
                },
                insert("Logical_Switch_Port", "p", name="vm7"),
            )

        with pytest.raises(Refused, match=r"still holds ports of somebody else \(vm7\)"):
            await overtaken(made, deletion("blue", done.epoch), intrude)


async def test_a_port_that_is_gone_stops_only_what_needs_it() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        before = server.contents()
        with pytest.raises(Refused, match="no logical switch port 'vm9'"):
            await driver.apply(change(spec, ports=(PortEdit("vm9", {"requested-chassis": "a"}),)))
        assert server.contents() == before
        clean = PortEdit("vm9", {"requested-chassis": None})
        kept = PortEdit("vm9", {"requested-chassis": "a"}, only_if={"requested-chassis": "b"})
        assert (await driver.apply(change(spec, ports=(clean, kept)))).wrote


async def test_the_configuration_number_is_raised_in_the_same_transaction_and_only_with_one() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec, bump_nb_cfg=True))
        count = server.transactions()
        moved = change(spec, made.epoch, (Member(30, "a"), Member(20, "b")), bump_nb_cfg=True)
        done = await driver.apply(moved)
        assert (done.nb_cfg, server.transactions()) == (made.nb_cfg + 1, count + 1)
        assert server.rows("NB_Global")[0]["nb_cfg"] == done.nb_cfg
        again = await driver.apply(replace(moved, expected_epoch=done.epoch))
        assert again == Committed(done.epoch, done.nb_cfg, wrote=False)


async def test_a_switch_of_ours_with_ports_of_others_is_not_deleted() -> None:
    async with house() as (server, [driver]):
        made = await driver.apply(change(made_spec(await driver.view(), CREATE_SWITCH)))
        server.transact(
            {
                "op": "mutate",
                "table": "Logical_Switch",
                "where": [["name", "==", "blue"]],
                "mutations": [["ports", "insert", ["set", [reference("p")]]]],
            },
            insert("Logical_Switch_Port", "p", name="vm7"),
        )
        before = server.contents()
        with pytest.raises(Refused, match=r"still holds ports of somebody else \(vm7\)") as refused:
            await driver.apply(deletion("blue", made.epoch))
        assert refused.value.problems[0].code == "foreign-rows"
        assert server.contents() == before


async def test_a_candidate_that_another_tool_added_is_removed() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        server.transact(
            {
                "op": "mutate",
                "table": "Logical_Router_Port",
                "where": [["name", "==", "ovnmig-blue-ext"]],
                "mutations": [["gateway_chassis", "insert", ["set", [reference("g")]]]],
            },
            insert("Gateway_Chassis", "g", name="ovnmig-blue-ext-z", chassis_name="z", priority=99),
        )
        await driver.apply(change(spec, made.epoch))
        assert {row["chassis_name"] for row in server.rows("Gateway_Chassis")} == {"a", "b"}


async def test_rows_move_with_the_udn_to_another_switch() -> None:
    async with house() as (server, [driver]):
        before = server.contents()
        server.transact(insert("Logical_Switch", name="second"))
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        uuid = find(server, "Logical_Switch_Port", name="ovnmig-blue-int-lsp")["_uuid"]
        second = find(server, "Logical_Switch", name="second")["_uuid"][1]
        moved = replace(spec, switch="second", switch_uuid=second)
        done = await driver.apply(change(moved, made.epoch))
        assert find(server, "Logical_Switch", name="second")["ports"] == uuid
        ours = replace(spec, switch="blue", switch_uuid=None)
        owned = await driver.apply(change(ours, done.epoch))
        assert find(server, "Logical_Switch", name="blue")["ports"] == uuid
        await driver.apply(deletion("blue", owned.epoch))
        server.transact({"op": "delete", "table": "Logical_Switch", "where": [["name", "==", "second"]]})
        assert server.contents() == before


async def test_a_second_row_of_one_role_is_cleaned_away() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        nat = find(server, "NAT", external_ip="172.16.1.100")
        server.transact(
            {
                "op": "mutate",
                "table": "Logical_Router",
                "where": [["name", "==", "ovnmig-blue"]],
                "mutations": [["nat", "insert", ["set", [reference("n")]]]],
            },
            insert("NAT", "n", **{k: nat[k] for k in ("type", "external_ip", "logical_ip", "external_ids")}),
        )
        await driver.apply(change(spec, made.epoch, PAIR))
        find(server, "NAT", external_ip="172.16.1.100")


def _record_name(server: DatabaseServer) -> str:
    names = [row["name"] for row in server.rows("Address_Set") if row["name"] != "theirs"]
    assert len(names) == 1
    return str(names[0])
