"""The sending side of a transfer: copy the zones, stay in step, hand over.

Events come first, then the dump, so that nothing falls between. OVS hides changes of TCP state from events;
a dump compared with what was sent finds them. The target follows the ends of its own entries and tells of
them with every answer to a SYNC, so it reads its zone back only now and then.
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
from ovnmig.agent.answers import vanished
from ovnmig.agent.forward import Forward
from ovnmig.agent.frames import Frame
from ovnmig.agent.link import LinkLost
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.outgoing import Outgoing, wait
from ovnmig.agent.sender import Sender
from ovnmig.agent.store import Copies
from ovnmig.agent.tally import Tally
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import Batch, DumpReport, EventSocket, among, merge, to_wire
from ovnmig.core.transfer import TransferOrder, TransferState, ZoneRef

_log = logging.getLogger(__name__)
ROUND_S: Final = 1.0
GATHER_S: Final = 0.01
"""Events are taken together over so long: one frame instead of one per entry."""
FRESH_S: Final = 2.0
"""A copy made in less time is as new as one in step ever is; after a longer one comes another dump first."""
REFRESH_S: Final = 10.0
SHORT_S: Final = 300
"""Entries with less time left than this are written again every REFRESH_S: copies get no packets that would
refresh them, and the shortest time the kernel gives is 30 s."""
KEEP_REFRESH_S: Final = 240.0
"""In a standing transfer all entries are written again so often, below SHORT_S: the original is kept alive by
traffic that the copy never sees."""
VERIFY_S: Final = 30.0
"""So often the target reads its zones back, beside the events that it follows."""
RETRIES: Final = 1000
"""So many refused entries of a zone a standing transfer tries again every REFRESH_S, and no more: a full
table stays full."""
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
        self._sender = sender
        self._worker = worker
        self._tally = tally
        self._out = Outgoing(order, chassis, view, sender, worker, tally)
        self._forward = Forward(self._out, copies)
        self.rounds = 0
        self.differing = 0
        self._missed: Counter[tuple[str, int]] = Counter()
        self._refreshed_at = self._whole_at = self._verified_at = self._tried_at = time.monotonic()

    async def run(
        self, handed_over: bool, changed: Callable[[TransferState], None], final: asyncio.Event
    ) -> None:
        """Work until the connection ends, after :meth:`begin`. ``final`` asks for the hand-over.

        ``handed_over``: that was done over an earlier connection. ``changed`` is told each new state.
        Raises LinkLost, FrameError, PeerRefused; never returns.
        """
        with ExitStack() as stack:
            events = stack.enter_context(await self._out.subscribe())
            if handed_over:
                await self._forward.missed()
            else:
                changed(TransferState.COPYING)
                await self._catch_up(events)
                await self._end_others()
                await self._sender.settled()
                changed(TransferState.IN_STEP)
                await self._keep_step(events, final)
                await self._hand_over(events)
                changed(TransferState.FINAL)
            await self._forward.run(events, self.rounds)

    async def begin(self, handed_over: bool) -> None:
        """Find the zones on both sides. Raises CannotTransfer when a required one is not usable.

        ``handed_over``: a zone may be gone from here, its port has left as it should.
        """
        view = self._view()
        refs = self._order.zones
        numbers = zones.present(view, self._chassis, refs)
        absent = [ref.key for ref in refs if ref.required and ref.key not in numbers]
        if absent and not handed_over:
            raise CannotTransfer(f"chassis {self._chassis!r} has no conntrack zone for {', '.join(absent)}")
        problems = zones.shared(view, self._chassis, refs)
        if problems:
            raise CannotTransfer(f"on chassis {self._chassis!r} {'; '.join(problems)}")
        missing = await self._sender.greet([_wire(ref) for ref in refs if ref.key in numbers])
        needed = [ref.key for ref in refs if ref.required and ref.key in missing and not handed_over]
        if needed:
            raise LinkLost(
                f"chassis {self._order.peer.chassis!r} has no conntrack zone yet for {', '.join(needed)}"
            )
        self._out.take({key: number for key, number in numbers.items() if key in self._sender.indexes})

    async def _catch_up(self, events: EventSocket) -> None:
        began = time.monotonic()
        await self._copy()
        lost = await self._follow(events)
        if lost or time.monotonic() - began > FRESH_S:
            async with asyncio.TaskGroup() as group:
                verifying = group.create_task(self._verify())
                while not self._is_small(await self._round()):
                    pass
            lacking = verifying.result()
        else:
            lacking = await self._verify()
        if lacking:
            await self._round()

    async def _copy(self) -> None:
        report = DumpReport()
        children: list[tuple[str, Batch]] = []
        async for key, piece in self._out.pieces(report):
            masters, rest = piece.masters_first()
            await self._out.send(key, masters)
            if len(rest):
                children.append((key, rest))
        for key, rest in children:
            await self._out.send(key, rest)
        self._tally.unmovable(report.skipped)

    async def _end_others(self) -> None:
        """Sessions may have ended while the connection was broken: their copies must not stay as zombies."""
        for key, ledger in self._out.ledgers.items() if self._order.keep else ():
            await self._sender.ended_others(key)
            self._tally.retain(key, ledger)

    async def _round(self) -> int:
        """Dump, compare with what was sent, send the difference; returns its size."""
        self._out.check_zones()
        self.rounds += 1
        now = time.monotonic()
        refresh = now - self._refreshed_at >= REFRESH_S
        whole = self._order.keep and now - self._whole_at >= KEEP_REFRESH_S
        report = DumpReport()
        total = 0
        first: dict[str, list[Batch]] = {key: [] for key in self._out.numbers}
        for ledger in self._out.ledgers.values():
            ledger.begin()
        async for key, piece in self._out.pieces(report):
            ledger = self._out.ledgers[key]
            if refresh:
                short = piece if whole else _short_lived(piece)
                await self._out.send(key, short.pick(ledger.holds(short.keys())), "refresh")
            found = ledger.sift(piece)
            total += len(found)
            self.differing = total
            await self._out.send(key, found.changed)
            # New ones wait: what has ended may hold the address and port of one of them.
            first[key] += [found.new, found.reborn]
        for key, ledger in self._out.ledgers.items():
            gone = ledger.unseen()
            total += int(gone.size)
            if gone.size:
                self._out.forget(key, gone)
                await self._sender.ended_keys(key, to_wire(gone))
            for batch in merge(first[key]).masters_first():
                await self._out.send(key, batch)
        if refresh:
            self._refreshed_at = now
            self._whole_at = now if whole else self._whole_at
        self._tally.unmovable(report.skipped)
        self.differing = 0
        return total

    def _is_small(self, difference: int) -> bool:
        held = sum(map(len, self._out.ledgers.values()))
        return difference <= max(SMALL, SMALL_SHARE * held) or self.rounds >= PATIENCE_ROUNDS

    async def _verify(self) -> int:
        """Have the target read its zones back; what it lacks counts as unsent. Returns how many that are."""
        lacking = self._take_missing(await self._sender.sync(self.rounds, verify=True))
        self._verified_at = time.monotonic()
        if not lacking:
            self._missed.clear()
        return lacking

    async def _ask(self) -> int:
        """Have the target answer everything up to here and tell what has ended there by itself."""
        return self._take_missing(await self._sender.sync(self.rounds, verify=False))

    def _take_missing(self, synced: Frame) -> int:
        names = {index: key for key, index in self._sender.indexes.items()}
        total = 0
        for index, keys in vanished(synced).items():
            key = names.get(index, "")
            ledger = self._out.ledgers.get(key)
            if ledger is None:
                continue
            ours = keys[ledger.holds(keys)]
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
        return total

    async def _keep_step(self, events: EventSocket, final: asyncio.Event) -> None:
        pause_s = ROUND_S
        due = time.monotonic() + pause_s
        while not final.is_set():
            await wait(events, final, min(ROUND_S, due - time.monotonic()))
            if not final.is_set():
                await asyncio.sleep(GATHER_S)
            lost = await self._follow(events)
            if not lost and time.monotonic() - (self._tally.synced_at or 0.0) >= ROUND_S:
                lost = bool(await self._ask())
            if lost or time.monotonic() >= due:
                began = time.monotonic()
                if self._order.keep and began - self._tried_at >= REFRESH_S:
                    # What stood in their way may be gone, and a standing transfer has no last try.
                    self._try_refused_again(RETRIES)
                    self._tried_at = began
                await self._round()
                if began - self._verified_at >= VERIFY_S and await self._verify():
                    await self._round()
                # A large zone is dumped less often: dumping takes at most a tenth of the time.
                pause_s = max(ROUND_S, 10 * (time.monotonic() - began))
                due = time.monotonic() + pause_s

    async def _follow(self, events: EventSocket) -> bool:
        """Send what events say; True when some were lost."""
        lost = False
        while True:
            reading = await self._worker.run(events.read)
            lost = lost or reading.resync
            for key, number in self._out.numbers.items():
                if (zone := reading.zones.get(number)) is None:
                    continue
                if len(zone.gone):
                    self._out.forget(key, zone.gone.keys())
                    await self._sender.ended(key, zone.gone)
                await self._out.send(key, zone.present)
            if not reading.count:
                return lost

    def _try_refused_again(self, limit: int | None = None) -> None:
        """The next round sends again what the target refused, at most ``limit`` entries of a zone."""
        for key, ledger in self._out.ledgers.items():
            refused = self._tally.refused_keys(key)
            if refused:
                keys = ledger.keys
                ledger.forget(keys[among(keys, refused)][:limit])

    async def _hand_over(self, events: EventSocket) -> None:
        """The last dump and difference, answered, while the target reads its zones back a last time.

        What the target refused gets one more try.
        """
        self._try_refused_again()
        async with asyncio.TaskGroup() as group:
            verifying = group.create_task(self._verify())
            await self._follow(events)
            await self._round()
        lacking = verifying.result()
        for _ in range(LOST_AFTER):
            if lacking:
                await self._round()
            lacking = await self._ask()
            if not lacking:
                break
        await self._sender.settled()


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
