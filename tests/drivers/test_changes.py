"""A counter of changes between threads and the event loop."""

from __future__ import annotations

import asyncio
import threading

import anyio

from ovnmig.drivers.changes import Changes


async def test_a_change_seen_already_is_waited_past() -> None:
    changes = Changes()
    changes.note()
    assert await changes.wait(0, 5)
    assert not await changes.wait(1, 0.02)


async def test_every_waiter_is_woken_by_a_change_in_another_thread() -> None:
    changes = Changes()
    woken = []

    async def listen() -> None:
        woken.append(await changes.wait(0, 5))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        assert not woken
        thread = threading.Thread(target=changes.note)
        thread.start()
        thread.join()
    assert woken == [True, True, True]


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    changes = Changes()
    with anyio.move_on_after(0.02):
        await changes.wait(0, 60)
    changes.note()
    assert changes.count == 1


def test_a_change_after_the_loop_has_ended_is_no_error() -> None:
    changes = Changes()

    async def leave() -> None:
        await changes.wait(0, 0.01)
        changes._waiting[asyncio.Event()] = asyncio.get_running_loop()

    asyncio.run(leave())
    changes.note()
    assert changes.count == 1
