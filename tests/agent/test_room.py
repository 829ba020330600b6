"""Bytes that several streams share."""

from __future__ import annotations

import asyncio

from ovnmig.agent.room import Room


async def test_who_asks_for_more_than_is_free_waits_its_turn() -> None:
    room, order = Room(100), list[str]()

    async def stream(name: str, size: int) -> None:
        await room.take(size)
        order.append(name)

    await stream("first", 60)
    async with asyncio.TaskGroup() as group:
        group.create_task(stream("large", 90))
        group.create_task(stream("small", 10))
        await asyncio.sleep(0)
        assert order == ["first"]
        room.give(60)
    assert order == ["first", "large", "small"]
    assert room.free == 0


async def test_a_frame_larger_than_all_room_gets_all_of_it() -> None:
    room = Room(100)
    assert await room.take(500) == 100
    room.give(100)
    assert room.free == 100


async def test_who_stops_waiting_stands_in_nobodys_way() -> None:
    room = Room(100)
    await room.take(60)
    async with asyncio.TaskGroup() as group:
        gone, waiting = group.create_task(room.take(90)), group.create_task(room.take(40))
        await asyncio.sleep(0)
        gone.cancel()
        assert await waiting == 40
        granted = group.create_task(room.take(50))
        await asyncio.sleep(0)
        room.give(100)
        granted.cancel()  # in the moment it was served
    assert room.free == 100
