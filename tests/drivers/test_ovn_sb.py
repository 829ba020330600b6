"""The Southbound driver on a real ovsdb-server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ovnmig.core.views import SbView
from ovnmig.drivers.ovn_sb import OvnSouthbound
from ovnmig.engine.protocols import DatabaseUnavailable
from tests.nb.server import DatabaseServer, southbound
from tests.nb.world import insert, reference, update


def add_chassis(name: str, host: int, /, **columns: Any) -> list[dict[str, Any]]:
    encap = f"e_{name}"
    return [
        insert("Encap", encap, type="geneve", ip=f"192.0.2.{host}", chassis_name=name),
        insert("Chassis", f"c_{name}", name=name, encaps=reference(encap), **columns),
        insert("Chassis_Private", name=name, nb_cfg=4),
    ]


@asynccontextmanager
async def house(
    without: dict[str, list[str]] | None = None,
) -> AsyncIterator[tuple[DatabaseServer, OvnSouthbound]]:
    server = southbound(without)
    server.transact(
        *add_chassis("a", 11),
        *add_chassis("b", 12),
        insert("Datapath_Binding", "d", tunnel_key=1, external_ids=["map", [["name", "net"]]]),
        insert(
            "Port_Binding",
            logical_port="vm1",
            tunnel_key=1,
            datapath=reference("d"),
            chassis=reference("c_a"),
        ),
        insert("Port_Binding", logical_port="vm2", tunnel_key=2, datapath=reference("d")),
    )
    driver = OvnSouthbound(server.remote, timeout_s=5)
    try:
        yield server, driver
    finally:
        await driver.close()
        server.remove()


def chassis_uuid(server: DatabaseServer, name: str) -> Any:
    return next(row["_uuid"] for row in server.rows("Chassis") if row["name"] == name)


def owned_by(port: str, chassis: str) -> Any:
    def holds(view: SbView) -> bool:
        binding = view.binding(port)
        return binding is not None and binding.chassis == chassis

    return holds


async def test_waiting_ends_as_soon_as_the_claim_is_seen() -> None:
    async with house() as (server, driver):
        b = chassis_uuid(server, "b")
        results = []

        async def wait() -> None:
            results.append(await driver.wait_until(owned_by("vm2", "b"), 30))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wait)
            await anyio.sleep(0.1)
            assert not results
            server.transact(update("Port_Binding", "logical_port", "vm2", chassis=b))
            with anyio.fail_after(5):
                while len(results) < 5:
                    await anyio.lowlevel.checkpoint()
        assert results == [True] * 5


async def test_what_holds_already_is_true_at_once_and_what_never_holds_is_false_at_the_end() -> None:
    async with house() as (_, driver):
        assert await driver.wait_until(owned_by("vm1", "a"), 0)
        assert not await driver.wait_until(owned_by("vm1", "b"), 0.05)


async def test_an_idle_wait_looks_once_and_not_again() -> None:
    async with house() as (_, driver):
        await driver.start()
        looks = 0

        def never(_: SbView) -> bool:
            nonlocal looks
            looks += 1
            return False

        assert not await driver.wait_until(never, 0.5)
        assert looks == 2, "at the start and at the end"


async def test_a_wait_outlives_a_restart_of_the_server() -> None:
    async with house() as (server, driver):
        b = chassis_uuid(server, "b")
        await driver.start()
        async with anyio.create_task_group() as tasks:
            result = []

            async def wait() -> None:
                result.append(await driver.wait_until(owned_by("vm2", "b"), 30))

            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            server.stop()
            await anyio.sleep(0.2)
            server.start()
            server.transact(update("Port_Binding", "logical_port", "vm2", chassis=b))
        assert result == [True]


async def test_an_error_of_the_predicate_is_not_hidden() -> None:
    async with house() as (_, driver):
        with pytest.raises(ZeroDivisionError):
            await driver.wait_until(lambda _: 1 // 0 == 1, 5)


async def test_a_server_that_is_away_is_said_to_be_away() -> None:
    async with house() as (server, driver):
        assert "not connected" in await driver.healthy()
        await driver.view()
        assert await driver.healthy() == ""
        server.stop()
        with pytest.raises(DatabaseUnavailable, match="OVN_Southbound"):
            await driver.view()
        assert "OVN_Southbound" in await driver.healthy()
        assert not await driver.wait_until(lambda _: True, 0.2)


async def test_a_view_without_changes_is_the_same_object() -> None:
    async with house() as (_, driver):
        assert await driver.view() is await driver.view()
