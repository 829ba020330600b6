"""What both halves of the sending side need: the zones as they are here, what was sent of them, dumps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from ovnmig.agent import zones
from ovnmig.agent.ahead import ahead
from ovnmig.agent.link import LinkLost
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.sender import Sender
from ovnmig.agent.tally import Tally
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import Batch, DumpReport, EventSocket, Hashes, Ledger, at_least, dump_zones
from ovnmig.core.transfer import TransferOrder

KEEP_LEFT_S: Final = 60
"""A standing copy has at least so long to live: its end is told, never awaited."""


class Outgoing:
    """The zones of one connection. ``numbers`` and ``ledgers`` go by the zones' wire names."""

    def __init__(
        self,
        order: TransferOrder,
        chassis: str,
        view: Callable[[], LocalView],
        sender: Sender,
        worker: Worker,
        tally: Tally,
    ) -> None:
        self.order = order
        self.sender = sender
        self.worker = worker
        self.tally = tally
        self._chassis = chassis
        self._view = view
        self.numbers: dict[str, int] = {}
        self.ledgers: dict[str, Ledger] = {}

    def take(self, numbers: dict[str, int]) -> None:
        """These zones exist on both sides."""
        self.numbers = numbers
        self.ledgers = {key: Ledger() for key in numbers}

    async def subscribe(self) -> EventSocket:
        """Events of the zones, from now on."""
        return await self.worker.run(EventSocket, self.numbers.values(), self.worker.transformer)

    def check_zones(self, *, may_end: bool = False) -> None:
        """Numbers are looked up again before each use: OVN may have given a zone another one."""
        now = zones.present(self._view(), self._chassis, self.order.zones)
        for key, number in list(self.numbers.items()):
            if now.get(key) == number:
                continue
            if may_end and key not in now:
                del self.numbers[key]  # the port left this node, as it should after the hand-over
            else:
                raise LinkLost(f"zone {key!r} was {number} here and is now {now.get(key, 'gone')}")

    async def pieces(self, report: DumpReport | None = None) -> AsyncGenerator[tuple[str, Batch]]:
        """All zones as the kernel delivers them, by wire name; read ahead while a piece is worked on."""
        names = {number: key for key, number in self.numbers.items()}
        dump = dump_zones(self.worker.socket, names, self.worker.transformer, report)
        async with aclosing(ahead(self.worker, dump)) as found:
            async for number, batch in found:
                yield names[number], batch

    async def send(self, key: str, batch: Batch, mode: str = "live") -> None:
        """Note records as sent and send them."""
        if len(batch):
            batch = at_least(batch, KEEP_LEFT_S) if self.order.keep else batch
            self.ledgers[key].record(batch)
            await self.sender.entries(key, batch, mode)

    def forget(self, key: str, keys: Hashes) -> None:
        """These sessions are over."""
        self.ledgers[key].forget(keys)
        if self.order.keep:
            self.tally.forget(key, keys)


async def wait(events: EventSocket, stop: asyncio.Event | None, timeout_s: float) -> None:
    """Return when events are waiting, ``stop`` is set, or the time is over."""
    if timeout_s <= 0 or (stop is not None and stop.is_set()):
        return
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    loop.add_reader(events.fileno(), wake)
    handle = loop.call_later(timeout_s, wake)
    try:
        async with asyncio.TaskGroup() as group:
            stopper = group.create_task(_then(stop or asyncio.Event(), wake))
            await waiter
            stopper.cancel()
    finally:
        handle.cancel()
        loop.remove_reader(events.fileno())


async def _then(event: asyncio.Event, call: Callable[[], None]) -> None:
    await event.wait()
    call()
