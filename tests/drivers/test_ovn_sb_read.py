"""Chassis and bindings as the core sees them, whatever the OVN release writes where."""

from __future__ import annotations

from ovnmig.core.views import BindingView, ChassisView
from tests.drivers.test_ovn_sb import add_chassis, chassis_uuid, house
from tests.nb.world import update


async def test_a_chassis_tells_its_settings_in_either_column() -> None:
    async with house() as (server, driver):
        settings = ["map", [["ovn-bridge-mappings", "phys:br-ex, net:2:br-y,:br-z,bad"]]]
        server.transact(
            *add_chassis("new", 1, other_config=settings, hostname="host-new"),
            *add_chassis(
                "old",
                2,
                external_ids=[
                    "map",
                    [["ovn-bridge-mappings", "phys:br"], ["ovn-cms-options", "x,enable-chassis-as-gw"]],
                ],
            ),
        )
        await driver.wait_until(lambda view: view.find_chassis("old") is not None, 5)
        view = await driver.view()
        assert view.find_chassis("new") == ChassisView(
            name="new",
            hostname="host-new",
            encap_ips=("192.0.2.1",),
            physical_networks=frozenset({"phys", "net:2"}),
            gateway_preferred=False,
            nb_cfg=4,
        )
        old = view.find_chassis("old")
        assert old is not None
        assert old.gateway_preferred
        assert old.physical_networks == {"phys"}
        plain = view.find_chassis("a")
        assert plain is not None
        assert plain.physical_networks == frozenset()


async def test_settings_are_read_where_there_is_no_other_config() -> None:
    async with house({"Chassis": ["other_config"], "Port_Binding": ["additional_chassis"]}) as (
        server,
        driver,
    ):
        server.transact(
            *add_chassis("old", 2, external_ids=["map", [["ovn-bridge-mappings", "phys:br"]]]),
        )
        await driver.wait_until(lambda view: view.find_chassis("old") is not None, 5)
        old = (await driver.view()).find_chassis("old")
        assert old is not None
        assert old.physical_networks == {"phys"}


async def test_a_binding_shows_who_owns_it_who_stands_by_and_who_was_let_through() -> None:
    async with house() as (server, driver):
        server.transact(
            update(
                "Port_Binding",
                "logical_port",
                "vm1",
                additional_chassis=["set", [chassis_uuid(server, "b")]],
                up=True,
                options=["map", [["additional-chassis-activated", "b,"]]],
            )
        )
        await driver.wait_until(lambda view: any(binding.up for binding in view.bindings), 5)
        view = await driver.view()
        datapath = view.datapaths["net"]
        assert view.binding("vm1") == BindingView("vm1", "", "a", ("b",), ("b",), True, datapath)
        assert view.binding("vm2") == BindingView("vm2", "", "", (), (), False, datapath)


async def test_a_chassis_that_leaves_is_gone_from_its_bindings_too() -> None:
    async with house() as (server, driver):
        await driver.view()
        server.transact({"op": "delete", "table": "Chassis", "where": [["name", "==", "a"]]})
        assert await driver.wait_until(lambda view: view.find_chassis("a") is None, 5)
        binding = (await driver.view()).binding("vm1")
        assert binding is not None
        assert binding.chassis == ""
