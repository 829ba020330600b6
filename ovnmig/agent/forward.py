"""After the hand-over: the target is the owner, and only what is newborn here goes on to it.

An entry that dies or changes here is a stray's and must not touch the live one.
"""

from __future__ import annotations

import time
from typing import Final

from ovnmig.agent.outgoing import Outgoing, wait
from ovnmig.agent.store import Copies, known, split_known
from ovnmig.conntrack import Batch, Events, EventSocket, merge

ROUND_S: Final = 1.0
NEWBORN_S: Final = 5.0


class Forward:
    """One connection's worth of forwarding."""

    def __init__(self, out: Outgoing, copies: Copies) -> None:
        self._out = out
        self._copies = copies
        self._born: dict[tuple[str, int], float] = {}

    async def missed(self) -> None:
        """After a break past the hand-over: what is here now was sent long ago, or was born in the break.

        What was sent is not sent again: the target may have seen it end.
        """
        for key, batch in (await self._read()).items():
            self._out.ledgers[key].record(batch)
            await self._out.send(key, self._out.tally.unseen(key, batch), "newborn")

    async def run(self, events: EventSocket, rounds: int) -> None:
        """Forward until the connection ends."""
        out = self._out
        due = time.monotonic() + ROUND_S
        while True:
            await wait(events, None, due - time.monotonic())
            await self._newborn(await out.worker.run(events.read))
            if time.monotonic() >= due:
                out.check_zones(may_end=True)
                await self._upgrade()
                await out.sender.sync(rounds, verify=False)
                due = time.monotonic() + ROUND_S

    async def _read(self) -> dict[str, Batch]:
        parts: dict[str, list[Batch]] = {key: [] for key in self._out.numbers}
        async for key, batch in self._out.pieces():
            parts[key].append(batch)
        whole = {key: merge(some).masters_first() for key, some in parts.items()}
        return {key: Batch((*first.groups, *last.groups)) for key, (first, last) in whole.items()}

    async def _newborn(self, reading: Events) -> None:
        there = await self._read() if reading.resync else {}
        for key, number in self._out.numbers.items():
            ledger = self._out.ledgers[key]
            if reading.resync:
                batch = there[key]
            elif (zone := reading.zones.get(number)) is not None:
                ledger.forget(zone.gone.keys())
                batch = zone.present
            else:
                continue
            _, new = split_known(ledger, batch)
            # What another agent's stream just put here would only travel in circles.
            new = new.pick(~known(self._copies.of(self._out.order.udn, key), new.keys()))
            if len(new):
                self._born.update(((key, one), time.monotonic()) for one in new.keys().tolist())
                await self._out.send(key, new, "newborn")

    async def _upgrade(self) -> None:
        """An event shows an entry at birth; its copy needs the state it has reached since."""
        if not self._born:
            return
        for key, batch in (await self._read()).items():
            changed = self._out.ledgers[key].compare(batch, whole=False).changed
            mask = changed.keys() != changed.keys()
            for position, number in enumerate(changed.keys().tolist()):
                mask[position] = (key, number) in self._born
            await self._out.send(key, changed.pick(mask), "upgrade")
        limit = time.monotonic() - NEWBORN_S
        self._born = {entry: at for entry, at in self._born.items() if at > limit}
