"""The Northbound driver on a real ovsdb-server."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface

import anyio
import pytest

from ovnmig.core import drift, topology
from ovnmig.core.rows import Committed, EpochConflict
from ovnmig.core.udn import Member, Refused
from ovnmig.drivers.ovn_nb import OvnNorthbound
from tests.core.worlds import IPV4, REQUEST
from tests.nb.world import PAIR, change, deletion, find, house, insert, made_spec, reference, update

CREATE_SWITCH = replace(REQUEST, switch=None, create_switch=True)


async def test_creation_is_one_transaction_and_deletion_leaves_the_database_as_it_was() -> None:
    async with house() as (server, [driver]):
        before, count = server.contents(), server.transactions()
        wanted = change(made_spec(await driver.view()), bump_nb_cfg=True)
        made = await driver.apply(wanted)
        assert made.wrote
        assert made.nb_cfg == 1
        assert server.transactions() == count + 1
        view = await driver.view()
        assert wanted.rows is not None
        assert not drift.diff(view.owned, wanted.rows)
        record = view.record("blue")
        assert record is not None
        assert (record.epoch, record.document) == (made.epoch, wanted.document)
        gone = await driver.apply(deletion("blue", made.epoch))
        assert gone == Committed(made.epoch + 1, 1, wrote=True)
        assert server.transactions() == count + 2
        assert server.contents() == before


async def test_an_identical_request_sends_nothing() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        count = server.transactions()
        again = await driver.apply(change(spec, made.epoch))
        assert again == Committed(made.epoch, made.nb_cfg, wrote=False)
        assert server.transactions() == count


async def test_a_vip_change_is_one_transaction_that_keeps_the_rows() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        uuids = {row.role: row.uuid for row in (await driver.view()).owned}
        count = server.transactions()
        moved = replace(spec, vips=(ip_interface("172.16.1.101/24"), ip_interface("fd01::101/64")))
        done = await driver.apply(change(moved, made.epoch))
        assert done.epoch == made.epoch + 1
        assert server.transactions() == count + 1
        assert {row.role: row.uuid for row in (await driver.view()).owned} == uuids
        assert {row["external_ip"] for row in server.rows("NAT")} == {
            "172.16.1.101",
            "fd01::101",
            "192.0.2.9",
        }
        port = find(server, "Logical_Router_Port", name="ovnmig-blue-ext")
        assert port["networks"] == ["set", ["172.16.1.101/24", "fd01::101/64"]]


async def test_vlan_port_range_and_zone_come_and_go() -> None:
    async with house() as (server, [driver]):
        spec = replace(made_spec(await driver.view()), vlan=7, port_range=(1024, 2047), snat_zone=40000)
        made = await driver.apply(change(spec))
        assert find(server, "Logical_Switch_Port", name="ovnmig-blue-ln")["tag"] == 7
        assert find(server, "NAT", external_ip="fd01::100")["external_port_range"] == "1024-2047"
        router = find(server, "Logical_Router", name="ovnmig-blue")
        assert router["options"] == ["map", [["snat-ct-zone", "40000"]]]
        plain = replace(spec, vlan=None, port_range=None, snat_zone=None)
        await driver.apply(change(plain, made.epoch))
        assert find(server, "Logical_Switch_Port", name="ovnmig-blue-ln")["tag"] == ["set", []]
        assert find(server, "NAT", external_ip="fd01::100")["external_port_range"] == ""
        assert find(server, "Logical_Router", name="ovnmig-blue")["options"] == ["map", []]


async def test_members_come_and_go_in_one_transaction_each() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        count = server.transactions()
        three = (Member(30, "c"), *PAIR)
        grown = await driver.apply(change(spec, made.epoch, three))
        assert {(r["chassis_name"], r["priority"]) for r in server.rows("Gateway_Chassis")} == {
            ("c", 30),
            ("b", 20),
            ("a", 10),
        }
        await driver.apply(change(spec, grown.epoch, (Member(20, "c"), Member(10, "b"))))
        assert {(r["chassis_name"], r["priority"]) for r in server.rows("Gateway_Chassis")} == {
            ("c", 20),
            ("b", 10),
        }
        assert server.transactions() == count + 2


async def test_a_stale_epoch_changes_nothing() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        before, count = server.contents(), server.transactions()
        for stale in (None, made.epoch - 1, made.epoch + 1):
            with pytest.raises(EpochConflict):
                await driver.apply(change(replace(spec, vlan=9), stale))
        with pytest.raises(EpochConflict):
            await driver.apply(deletion("green", 1))
        assert server.contents() == before
        assert server.transactions() == count


async def test_a_deleted_and_recreated_udn_never_goes_back_behind_its_old_epoch() -> None:
    async with house() as (_, [driver]):
        spec = made_spec(await driver.view())
        first = await driver.apply(change(spec))
        last = await driver.apply(deletion("blue", first.epoch))
        assert (await driver.apply(change(spec))).epoch > last.epoch


async def test_two_deployments_live_side_by_side_and_never_see_each_other() -> None:
    async with house("one", "two") as (server, [one, two]):
        before = server.contents()
        blue = made_spec(await one.view(), owner="one")
        first = await one.apply(change(blue))
        alone = server.contents()
        request = replace(
            CREATE_SWITCH,
            name="green",
            switch="green",
            vips=(ip_interface("172.16.1.200/24"), ip_interface("fd01::200/64")),
        )
        green = made_spec(await two.view(), request, owner="two")
        second = await two.apply(change(green))
        for driver, udn in ((one, "blue"), (two, "green")):
            view = await driver.view()
            assert {row.udn for row in view.owned} == {udn}
            assert [record.udn for record in view.records] == [udn]
        with pytest.raises(EpochConflict):
            await two.apply(deletion("blue", first.epoch))
        await two.apply(deletion("green", second.epoch))
        assert server.contents() == alone
        await one.apply(deletion("blue", first.epoch))
        assert server.contents() == before


async def test_the_same_name_in_two_deployments_is_refused_because_zones_go_by_router_name() -> None:
    async with house("one", "two") as (server, [one, two]):
        await one.apply(change(made_spec(await one.view(), owner="one")))
        before = server.contents()
        with pytest.raises(Refused, match="router 'ovnmig-blue'"):
            made_spec(await two.view(), owner="two")
        blind = made_spec((await two.view()).__class__(), CREATE_SWITCH, owner="two")
        with pytest.raises(Refused, match="Logical_Router_Port"):
            await two.apply(change(blind))
        assert server.contents() == before


@pytest.mark.parametrize(
    "name", ["a b", "q\"uo'te", "dot.ted", "名前", "é\U0001f410", "back\\slash", "$x;--", "-"]
)
async def test_any_name_makes_its_round_trip(name: str) -> None:
    async with house() as (server, [driver]):
        before = server.contents()
        spec = made_spec(await driver.view(), replace(REQUEST, name=name))
        made = await driver.apply(change(spec))
        view = await driver.view()
        record = view.record(name)
        assert record is not None
        assert {row.udn for row in view.owned} == {name}
        assert f"ovnmig-{name}" in {router.name for router in view.routers}
        again = await driver.apply(change(spec, made.epoch))
        assert not again.wrote
        await driver.apply(deletion(name, made.epoch))
        assert server.contents() == before


async def test_similar_udns_do_not_touch_each_other() -> None:
    async with house() as (server, [driver]):
        epochs = {}
        snapshots = []
        for i, name in enumerate(("a", "a-int", "a b", "a-b")):
            snapshots.append(server.contents())
            request = replace(
                CREATE_SWITCH,
                name=name,
                switch=f"s{i}",
                vips=(ip_interface(f"172.16.1.{i + 9}/24"), ip_interface(f"fd01::{i + 9}/64")),
            )
            made = await driver.apply(change(made_spec(await driver.view(), request)))
            epochs[name] = made.epoch
        for name in reversed(epochs):
            await driver.apply(deletion(name, epochs[name]))
            assert server.contents() == snapshots.pop()


async def test_what_others_wrote_into_our_rows_stays() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        router = find(server, "Logical_Router", name="ovnmig-blue")
        theirs = [["always_learn_from_arp_request", "false"], *router["options"][1]]
        marks = [["theirs", "yes"], *router["external_ids"][1]]
        server.transact(
            update(
                "Logical_Router", "name", "ovnmig-blue", options=["map", theirs], external_ids=["map", marks]
            )
        )
        await driver.apply(change(replace(spec, snat_zone=40001, vlan=9), made.epoch))
        after = find(server, "Logical_Router", name="ovnmig-blue")
        assert dict(after["options"][1]) == {**dict(theirs), "snat-ct-zone": "40001"}
        assert dict(after["external_ids"][1])["theirs"] == "yes"


async def test_drift_is_seen_and_repaired() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        wanted = topology.rows(spec, PAIR)
        made = await driver.apply(change(spec))
        server.transact(
            update("NAT", "external_ip", "172.16.1.100", external_ip="172.16.1.99"),
            {
                "op": "mutate",
                "table": "Logical_Router",
                "where": [["name", "==", "ovnmig-blue"]],
                "mutations": [
                    [
                        "static_routes",
                        "delete",
                        ["set", [find(server, "Logical_Router_Static_Route", nexthop="172.16.1.1")["_uuid"]]],
                    ]
                ],
            },
        )
        with anyio.fail_after(5):
            while len(words := drift.words(drift.diff((await driver.view()).owned, wanted))) < 2:
                await driver.wait_changed(1)
        assert words == (
            "Logical_Router_Static_Route row 'route:4' is missing",
            "NAT row 'snat:10.0.0.0/24': external_ip is '172.16.1.99', '172.16.1.100' is wanted",
        )
        count = server.transactions()
        assert (await driver.apply(change(spec, made.epoch))).wrote
        assert server.transactions() == count + 1
        assert not drift.diff((await driver.view()).owned, wanted)


async def test_two_drivers_that_create_one_udn_at_once_make_it_once() -> None:
    async with house("house", "house") as (server, drivers):
        spec = made_spec(await drivers[0].view())
        await drivers[1].view()
        outcomes: list[object] = []

        async def create(driver: OvnNorthbound, note: str) -> None:
            try:
                outcomes.append(await driver.apply(change(replace(spec, anchor=note))))
            except EpochConflict as conflict:
                outcomes.append(conflict)

        server.pause()
        async with anyio.create_task_group() as tasks:
            for i, driver in enumerate(drivers):
                tasks.start_soon(create, driver, f"vm{i}")
            await anyio.sleep(0.3)
            server.resume()
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Committed", "EpochConflict"]
        assert len([row for row in server.rows("Logical_Router") if row["name"] == "ovnmig-blue"]) == 1


async def test_columns_the_schema_lacks_are_left_out() -> None:
    async with house(
        without={"NAT": ["external_port_range"], "Logical_Router_Port": ["ipv6_ra_configs"]}
    ) as (
        server,
        [driver],
    ):
        before = server.contents()
        spec = replace(made_spec(await driver.view()), port_range=(1024, 2047))
        made = await driver.apply(change(spec))
        assert not drift.diff((await driver.view()).owned, topology.rows(spec, PAIR))
        await driver.apply(deletion("blue", made.epoch))
        assert server.contents() == before


async def test_a_port_of_somebody_elses_with_our_name_is_a_conflict_and_nothing_is_half_made() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view(), IPV4)
        server.transact(
            insert("Logical_Router", name="r", ports=reference("p")),
            insert(
                "Logical_Router_Port",
                "p",
                name="ovnmig-blue-ext",
                mac="00:00:00:00:00:08",
                networks="192.0.2.8/24",
            ),
        )
        before = server.contents()
        with pytest.raises(Refused, match="ovnmig-blue-ext") as refused:
            await driver.apply(change(spec))
        assert refused.value.problems[0].conflict
        assert server.contents() == before


async def test_the_picture_shows_what_validation_needs() -> None:
    async with house() as (server, [driver]):
        server.transact(
            insert(
                "Load_Balancer",
                name="lb",
                vips=[
                    "map",
                    [
                        ["192.0.2.5:80", "10.0.0.1:80"],
                        ["[fd00::5]:80", ""],
                        ["192.0.2.6", ""],
                        ["fd00::6", ""],
                    ],
                ],
            )
        )
        view = await driver.view()
        assert view.load_balancer_vips == {"192.0.2.5", "fd00::5", "192.0.2.6", "fd00::6"}
        (router,) = view.routers
        assert [nat.external_ip for nat in router.nats] == ["192.0.2.9"]
        assert [port.networks for port in router.ports] == [("192.0.2.9/24",)]
        await driver.apply(change(made_spec(view)))
        ours = next(r for r in (await driver.view()).routers if r.name == "ovnmig-blue")
        gateway = next(port for port in ours.ports if port.name == "ovnmig-blue-ext")
        assert set(gateway.gateway_chassis) == {("a", 10), ("b", 20)}
        assert not gateway.has_ha_chassis_group
