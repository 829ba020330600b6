"""Reading ahead: a blocking iterator runs in a worker's thread while the event loop uses what came before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from threading import Semaphore
from typing import Final, TypeVar

from ovnmig.agent.worker import Worker

T = TypeVar("T")
DEPTH: Final = 8
"""Pieces of a dump, of some thousand entries each, that may wait to be sent."""


async def ahead(worker: Worker, items: Generator[T], depth: int = DEPTH) -> AsyncGenerator[T]:
    """The items in order, at most ``depth`` of them made and not yet taken; raises what making them raises.

    Close it (``contextlib.aclosing``) when it is left early: the thread then ends ``items`` too.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[T | None, bool]] = asyncio.Queue()
    room = Semaphore(depth)
    stopped = False

    def produce() -> None:
        try:
            for item in items:
                room.acquire()
                if stopped:
                    return
                loop.call_soon_threadsafe(arrived.put_nowait, (item, True))
        finally:
            items.close()
            loop.call_soon_threadsafe(arrived.put_nowait, (None, False))

    work = worker.start(produce)
    try:
        while True:
            item, more = await arrived.get()
            if not more:
                break
            room.release()
            yield item  # type: ignore[misc]
        await work
    finally:
        stopped = True
        room.release()
        if not work.done():
            await asyncio.shield(asyncio.wait([work]))
