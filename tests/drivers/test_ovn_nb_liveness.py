"""The Northbound driver when servers come and go, fall silent, and another controller is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest

from ovnmig.drivers import ovsdb
from ovnmig.drivers.ovn_nb import OvnNorthbound
from ovnmig.engine.protocols import DatabaseUnavailable
from tests.nb.world import change, deletion, house, insert, made_spec


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return when the condition holds; its events are none that a test could wait for."""
    with anyio.fail_after(20):
        for _ in range(2000):
            if await condition():
                return
            await anyio.sleep(0.01)


async def healthy(driver: OvnNorthbound) -> bool:
    return not await driver.healthy()


async def unhealthy(driver: OvnNorthbound) -> bool:
    return bool(await driver.healthy())


async def unlocked(driver: OvnNorthbound) -> bool:
    return not await driver.try_lock()


async def test_a_restart_of_the_server_in_between_loses_nothing() -> None:
    async with house() as (server, [driver]):
        spec = made_spec(await driver.view())
        made = await driver.apply(change(spec))
        server.stop()
        await until(lambda: unhealthy(driver))
        with pytest.raises(DatabaseUnavailable):
            await driver.view()
        server.start()
        await until(lambda: healthy(driver))
        again = await driver.apply(change(replace(spec, vlan=5), made.epoch))
        assert again.epoch == made.epoch + 1


async def test_a_server_that_comes_later_is_found() -> None:
    async with house() as (server, [driver]):
        server.stop()
        with pytest.raises(DatabaseUnavailable, match="no server of OVN_Northbound answered"):
            await driver.start()
        assert "not connected" in await driver.healthy()
        assert not await driver.try_lock()
        server.start()
        assert (await driver.view()).switches
        assert await driver.healthy() == ""


async def test_one_process_holds_the_lock_and_the_other_cannot_write() -> None:
    async with house("house", "house", "other") as (_, [one, two, other]):
        spec = made_spec(await one.view())
        assert await one.try_lock()
        assert not await two.try_lock()
        assert await other.try_lock()
        with pytest.raises(DatabaseUnavailable, match="another one is active"):
            await two.apply(change(spec))
        assert (await one.apply(change(spec))).wrote
        await one.close()
        await until(two.try_lock)
        record = (await two.view()).record("blue")
        assert record is not None
        assert (await two.apply(deletion("blue", record.epoch))).wrote


async def test_the_lock_is_held_again_after_a_reconnect() -> None:
    async with house() as (server, [driver]):
        assert await driver.try_lock()
        server.stop()
        await until(lambda: unlocked(driver))
        server.start()
        await until(driver.try_lock)


async def test_a_task_is_told_of_what_changed_since_its_last_view() -> None:
    async with house() as (server, [driver]):
        await driver.view()
        assert not await driver.wait_changed(0.1)
        server.transact(insert("Logical_Switch", name="new"))
        assert await driver.wait_changed(5)
        assert await driver.wait_changed(5), "not looked at yet"
        with anyio.fail_after(5):
            while "new" not in {switch.name for switch in (await driver.view()).switches}:
                await driver.wait_changed(1)
        assert not await driver.wait_changed(0.1)


async def test_a_task_that_never_looked_waits_for_the_next_change() -> None:
    async with house() as (server, [driver]):
        await driver.start()
        heard = []

        async def listen() -> None:
            heard.append(await driver.wait_changed(5))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.sleep(0.2)
            assert not heard
            server.transact(insert("Logical_Switch", name="new"))
        assert heard == [True]


async def test_a_silent_server_is_reported_in_time_and_the_view_tells_what_became_of_the_write() -> None:
    async with house() as (server, [_]):
        driver = OvnNorthbound(server.remote, owner="house", timeout_s=1)
        spec = made_spec(await driver.view())
        server.pause()
        try:
            with anyio.fail_after(10), pytest.raises(DatabaseUnavailable, match="in time"):
                await driver.apply(change(spec))
        finally:
            server.resume()
        with anyio.fail_after(10):
            while (record := (await driver.view()).record("blue")) is None:
                await driver.wait_changed(1)
        assert (await driver.apply(change(spec, record.epoch))).wrote is False
        await driver.close()


async def test_a_server_that_accepts_and_says_nothing_is_no_server() -> None:
    async with house() as (server, [_]):
        driver = OvnNorthbound(server.remote, owner="house", timeout_s=0.5)
        server.pause()
        try:
            with pytest.raises(DatabaseUnavailable, match="timed out"):
                await driver.start()
        finally:
            server.resume()
        assert (await driver.view()).switches
        await driver.close()


async def test_a_copy_that_no_longer_hears_from_its_server_is_not_called_healthy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ovsdb, "PROBE_MS", 1000)
    async with house() as (server, [driver]):
        await driver.view()
        assert await driver.healthy() == ""
        server.pause()
        try:
            await until(lambda: unhealthy(driver))
            assert "has not answered for" in await driver.healthy()
        finally:
            server.resume()
        await until(lambda: healthy(driver))
