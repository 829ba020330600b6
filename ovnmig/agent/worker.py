"""A thread with a conntrack socket of its own: netlink calls block, the event loop must not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Self, TypeVar

from ovnmig.conntrack import Applier, NetlinkSocket, Transformer

P = ParamSpec("P")
R = TypeVar("R")


class Worker:
    """Calls given to :meth:`run` go one after another through one thread; use ``async with``."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.transformer = Transformer()

    async def __aenter__(self) -> Self:
        self.socket = await self.run(NetlinkSocket)
        self.applier = Applier(self.socket, self.transformer)
        return self

    async def __aexit__(self, *_: object) -> None:
        # Waits for a call that is still running: a socket must not close under it.
        await asyncio.shield(asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True))
        self.socket.close()

    def start(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """Begin a blocking call in this worker's thread; await the result later."""
        return asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(*args, **kwargs))

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of a blocking call made in this worker's thread."""
        return await self.start(call, *args, **kwargs)
