"""The sending side of a transfer: copy the zones, stay in step, hand over, then forward what is newborn.

Events come first, then the dump, so that nothing falls between. OVS hides changes of TCP state from events;
a dump compared with what was sent finds them. After the hand-over the target is the owner: an entry that
dies or changes here is a stray's and must not touch the live one, so only newborn entries go on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from ovnmig.agent import zones
from ovnmig.agent.link import LinkLost
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.sender import Sender
from ovnmig.agent.sink import vanished
from ovnmig.agent.store import Copies, known, split_known
from ovnmig.agent.tally import Tally
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import (
    Batch,
    Difference,
    DumpReport,
    Events,
    EventSocket,
    Ledger,
    at_least,
    dump_zones,
    read_zone,
)
from ovnmig.core.transfer import TransferOrder, TransferState, ZoneRef

_log = logging.getLogger(__name__)
ROUND_S: Final = 1.0
GATHER_S: Final = 0.01
"""Events are taken together over so long: one frame instead of one per entry."""
REFRESH_S: Final = 10.0
SHORT_S: Final = 300
"""Entries with less time left than this are written again every REFRESH_S: copies get no packets that would
refresh them, and the shortest time the kernel gives is 30 s."""
KEEP_REFRESH_S: Final = 240.0
"""In a standing transfer all entries are written again so often, below SHORT_S: the original is kept alive by
traffic that the copy never sees."""
KEEP_LEFT_S: Final = 60
"""A standing copy has at least so long to live: its end is told, never awaited."""
NEWBORN_S: Final = 5.0
SMALL: Final = 100
SMALL_SHARE: Final = 0.02
PATIENCE_ROUNDS: Final = 5
LOST_AFTER: Final = 3


class CannotTransfer(Exception):
    """Trying again would not help; the text says what is wrong."""


class Source:
    """One connection's worth of a transfer."""

    def __init__(
        self,
        order: TransferOrder,
        chassis: str,
        view: Callable[[], LocalView],
        copies: Copies,
        sender: Sender,
        worker: Worker,
        tally: Tally,
    ) -> None:
        self._order = order
        self._chassis = chassis
        self._view = view
        self._copies = copies
        self._sender = sender
        self._worker = worker
        self._tally = tally
        self.rounds = 0
        self.differing = 0
        self._numbers: dict[str, int] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._missed: Counter[tuple[str, int]] = Counter()
        self._refreshed_at = self._whole_at = time.monotonic()
        self._born: dict[tuple[str, int], float] = {}

    async def run(
        self, handed_over: bool, changed: Callable[[TransferState], None], final: asyncio.Event
    ) -> None:
        """Work until the connection ends, after :meth:`begin`. ``final`` asks for the hand-over.

        ``handed_over``: that was done over an earlier connection. ``changed`` is told each new state.
        Raises LinkLost, FrameError, PeerRefused; never returns.
        """
        with ExitStack() as stack:
            events = stack.enter_context(await self._subscribe())
            if handed_over:
                await self._forward_missed()
            else:
                changed(TransferState.COPYING)
                await self._copy()
                while not self._is_small(await self._round()):
                    pass
                if await self._verify():
                    await self._round()
                await self._end_others()
                await self._sender.settled()
                changed(TransferState.IN_STEP)
                await self._keep_step(events, final)
                await self._hand_over(events)
                changed(TransferState.FINAL)
            await self._forward(events)

    async def begin(self, handed_over: bool) -> None:
        """Find the zones on both sides. Raises CannotTransfer when a required one is not usable.

        ``handed_over``: a zone may be gone from here, its port has left as it should.
        """
        view = self._view()
        refs = self._order.zones
        self._numbers = zones.present(view, self._chassis, refs)
        absent = [ref.key for ref in refs if ref.required and ref.key not in self._numbers]
        if absent and not handed_over:
            raise CannotTransfer(f"chassis {self._chassis!r} has no conntrack zone for {', '.join(absent)}")
        problems = zones.shared(view, self._chassis, refs)
        if problems:
            raise CannotTransfer(f"on chassis {self._chassis!r} {'; '.join(problems)}")
        missing = await self._sender.greet([_wire(ref) for ref in refs if ref.key in self._numbers])
        needed = [ref.key for ref in refs if ref.required and ref.key in missing and not handed_over]
        if needed:
            raise LinkLost(
                f"chassis {self._order.peer.chassis!r} has no conntrack zone yet for {', '.join(needed)}"
            )
        self._numbers = {key: number for key, number in self._numbers.items() if key in self._sender.indexes}
        self._ledgers = {key: Ledger() for key in self._numbers}

    async def _subscribe(self) -> EventSocket:
        return await self._worker.run(EventSocket, self._numbers.values(), self._worker.transformer)

    def _check_zones(self, *, may_end: bool = False) -> None:
        """Numbers are looked up again before each use: OVN may have given a zone another one."""
        now = zones.present(self._view(), self._chassis, self._order.zones)
        for key, number in list(self._numbers.items()):
            if now.get(key) == number:
                continue
            if may_end and key not in now:
                del self._numbers[key]  # the port left this node, as it should after the hand-over
            else:
                raise LinkLost(f"zone {key!r} was {number} here and is now {now.get(key, 'gone')}")

    async def _copy(self) -> None:
        names = {number: key for key, number in self._numbers.items()}
        report = DumpReport()
        pieces = dump_zones(self._worker.socket, names, self._worker.transformer, report)
        children: list[tuple[str, Batch]] = []
        while (piece := await self._worker.run(next, pieces, None)) is not None:
            key = names[piece[0]]
            masters, rest = piece[1].masters_first()
            await self._send_live(key, masters)
            children.append((key, rest))
        for key, rest in children:
            await self._send_live(key, rest)
        self._tally.unmovable(report.skipped)

    async def _end_others(self) -> None:
        """Sessions may have ended while the connection was broken: their copies must not stay as zombies."""
        for key, ledger in self._ledgers.items() if self._order.keep else ():
            await self._sender.ended_others(key)
            self._tally.retain(key, ledger.keys)

    def _forget(self, key: str, keys: Any) -> None:
        self._ledgers[key].forget(keys)
        if self._order.keep:
            self._tally.forget(key, keys)

    async def _send_live(self, key: str, batch: Batch, mode: str = "live") -> None:
        if len(batch):
            batch = at_least(batch, KEEP_LEFT_S) if self._order.keep else batch
            self._ledgers[key].record(batch)
            await self._sender.entries(key, batch, mode)

    async def _read(self, key: str, report: DumpReport) -> Batch:
        return await self._worker.run(
            read_zone, self._worker.socket, self._numbers[key], self._worker.transformer, report
        )

    async def _round(self) -> int:
        """Dump, compare with what was sent, send the difference; returns its size."""
        self._check_zones()
        self.rounds += 1
        total, skipped = 0, Counter[str]()
        now = time.monotonic()
        refresh = now - self._refreshed_at >= REFRESH_S
        whole = self._order.keep and now - self._whole_at >= KEEP_REFRESH_S
        for key, ledger in self._ledgers.items():
            report = DumpReport()
            batch = await self._read(key, report)
            skipped.update(report.skipped)
            difference = await self._worker.run(ledger.compare, batch)
            total += len(difference)
            self.differing = total
            await self._send_difference(key, difference)
            if refresh:
                await self._send_live(key, batch if whole else _short_lived(batch), "refresh")
        if refresh:
            self._refreshed_at = now
            self._whole_at = now if whole else self._whole_at
        self._tally.unmovable(skipped)
        self.differing = 0
        return total

    async def _send_difference(self, key: str, difference: Difference) -> None:
        if difference.vanished.size:
            self._forget(key, difference.vanished)
            await self._sender.ended_keys(key, difference.vanished.astype("<u8").tobytes())
        for batch in (difference.new, difference.changed, difference.reborn):
            await self._send_live(key, batch)

    def _is_small(self, difference: int) -> bool:
        held = sum(map(len, self._ledgers.values()))
        return difference <= max(SMALL, SMALL_SHARE * held) or self.rounds >= PATIENCE_ROUNDS

    async def _verify(self) -> int:
        """Have the target read its zones back; what it lacks counts as unsent. Returns how many that are."""
        synced = await self._sender.sync(self.rounds, verify=True)
        names = {index: key for key, index in self._sender.indexes.items()}
        total = 0
        for index, keys in vanished(synced).items():
            key = names.get(index, "")
            ledger = self._ledgers.get(key)
            if ledger is None or not keys or not len(ledger):
                continue
            gone = set(keys)
            ours = ledger.keys[[one in gone for one in ledger.keys.tolist()]]
            ledger.forget(ours)
            total += int(ours.size)
            self._missed.update((key, one) for one in ours.tolist())
        if total:
            self._tally.put_back += total
            _log.warning(
                "%d entries of transfer %s had vanished from %s",
                total,
                self._order.id,
                self._order.peer.chassis,
            )
            self._tally.lose(entry for entry, times in self._missed.items() if times >= LOST_AFTER)
        else:
            self._missed.clear()
        return total

    async def _keep_step(self, events: EventSocket, final: asyncio.Event) -> None:
        pause_s = ROUND_S
        due = time.monotonic() + pause_s
        while not final.is_set():
            await self._wait(events, final, min(ROUND_S, due - time.monotonic()))
            await asyncio.sleep(GATHER_S)
            if await self._follow(events) or time.monotonic() >= due:
                began = time.monotonic()
                await self._round()
                if await self._verify():
                    await self._round()
                # A large zone is dumped less often: dumping takes at most a tenth of the time.
                pause_s = max(ROUND_S, 10 * (time.monotonic() - began))
                due = time.monotonic() + pause_s
            elif time.monotonic() - (self._tally.synced_at or 0.0) >= ROUND_S:
                await self._sender.sync(self.rounds, verify=False)

    async def _follow(self, events: EventSocket) -> bool:
        """Send what events say; True when some were lost."""
        lost = False
        while True:
            reading = await self._worker.run(events.read)
            lost = lost or reading.resync
            for key, number in self._numbers.items():
                if (zone := reading.zones.get(number)) is None:
                    continue
                if len(zone.gone):
                    self._forget(key, zone.gone.keys())
                    await self._sender.ended(key, zone.gone)
                await self._send_live(key, zone.present)
            if not reading.count:
                return lost

    async def _hand_over(self, events: EventSocket) -> None:
        """The last dump and difference, answered and read back. What the target refused gets one more try."""
        for key, ledger in self._ledgers.items():
            refused = self._tally.refused_keys(key)
            if refused:
                ledger.forget(ledger.keys[[number in refused for number in ledger.keys.tolist()]])
        await self._follow(events)
        await self._round()
        for _ in range(LOST_AFTER):
            if not await self._verify():
                break
            await self._round()
        await self._sender.settled()

    async def _forward_missed(self) -> None:
        """After a break past the hand-over: what is here now was sent long ago, or was born in the break.

        What was sent is not sent again: the target may have seen it end.
        """
        for key in self._numbers:
            batch = await self._read(key, DumpReport())
            self._ledgers[key].record(batch)
            await self._send_live(key, self._tally.unseen(key, batch), "newborn")

    async def _forward(self, events: EventSocket) -> None:
        due = time.monotonic() + ROUND_S
        while True:
            await self._wait(events, None, due - time.monotonic())
            reading = await self._worker.run(events.read)
            await self._forward_newborn(reading)
            if time.monotonic() >= due:
                self._check_zones(may_end=True)
                await self._upgrade_newborn()
                await self._sender.sync(self.rounds, verify=False)
                due = time.monotonic() + ROUND_S

    async def _forward_newborn(self, reading: Events) -> None:
        for key, number in self._numbers.items():
            ledger = self._ledgers[key]
            if reading.resync:
                batch = await self._read(key, DumpReport())
            elif (zone := reading.zones.get(number)) is not None:
                ledger.forget(zone.gone.keys())
                batch = zone.present
            else:
                continue
            _, new = split_known(ledger, batch)
            # What another agent's stream just put here would only travel in circles.
            new = new.pick(~known(self._copies.of(self._order.udn, key), new.keys()))
            if len(new):
                self._born.update(((key, one), time.monotonic()) for one in new.keys().tolist())
                await self._send_live(key, new, "newborn")

    async def _upgrade_newborn(self) -> None:
        """An event shows an entry at birth; its copy needs the state it has reached since."""
        if not self._born:
            return
        for key in self._numbers:
            batch = await self._read(key, DumpReport())
            changed = self._ledgers[key].compare(batch, whole=False).changed
            mask = changed.keys() != changed.keys()
            for position, number in enumerate(changed.keys().tolist()):
                mask[position] = (key, number) in self._born
            await self._send_live(key, changed.pick(mask), "upgrade")
        limit = time.monotonic() - NEWBORN_S
        self._born = {entry: at for entry, at in self._born.items() if at > limit}

    async def _wait(self, events: EventSocket, stop: asyncio.Event | None, timeout_s: float) -> None:
        """Return when events are waiting, ``stop`` is set, or the time is over."""
        if timeout_s <= 0:
            return
        ready = asyncio.Event() if stop is None else stop
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        loop.add_reader(events.fileno(), wake)
        handle = loop.call_later(timeout_s, wake)
        try:
            async with asyncio.TaskGroup() as group:
                stopper = group.create_task(_then(ready, wake))
                await waiter
                stopper.cancel()
        finally:
            handle.cancel()
            loop.remove_reader(events.fileno())


async def _then(event: asyncio.Event, call: Callable[[], None]) -> None:
    await event.wait()
    call()


def _short_lived(batch: Batch) -> Batch:
    mask: Any = batch.keys() != batch.keys()
    start = 0
    for group in batch:
        mask[start : start + len(group)] = group.timeouts_s() < SHORT_S
        start += len(group)
    return batch.pick(mask)


def _wire(ref: ZoneRef) -> dict[str, Any]:
    return {
        "key": ref.key,
        "kind": ref.kind.value,
        "name": ref.name,
        "datapath": ref.datapath,
        "required": ref.required,
    }
