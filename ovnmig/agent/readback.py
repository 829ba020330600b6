"""What has vanished from this node: a look at the whole zone, and the kernel's events between two looks.

An entry's end is told by the kernel (DESTROY), reliably, so a zone that was read back once stays known. A
whole look is needed first, when events were lost, and now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ovnmig.agent.applying import Parsed, Zone
from ovnmig.agent.store import Copies
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import EventSocket, Hashes, absent_records, among, dump_zones, joined

_ASKED_MAX: Final = 2000
"""So many ended entries are looked up one by one; with more the zone is read."""


class ReadBack:
    """Looks of one stream, in a thread of their own. Every call blocks; begin with :meth:`open`."""

    def __init__(self, udn: str, copies: Copies, worker: Worker, zones: Sequence[Zone]) -> None:
        self._udn = udn
        self._copies = copies
        self._worker = worker
        self._zones = zones
        self._lost = False

    def open(self) -> None:
        """Subscribe to the ends of entries."""
        numbers = [zone.number for zone in self._zones]
        self._events = EventSocket(numbers, self._worker.transformer, only_ends=True)

    def close(self) -> None:
        """End the subscription."""
        self._events.close()

    def fileno(self) -> int:
        """Readable: an entry of this namespace has ended."""
        return self._events.fileno()

    def begin(self) -> None:
        """Read all zones once; :meth:`finish` says what was missing. Entries may be written meanwhile."""
        for zone in self._zones:
            ledger = self._copies.of(self._udn, zone.ref.key)
            ledger.begin()
            for _, batch in dump_zones(self._worker.socket, [zone.number], self._worker.transformer):
                ledger.tick(batch.keys(), batch.identities())

    def finish(self, late: Iterable[tuple[int, Parsed]] = ()) -> dict[int, Hashes]:
        """Zone index -> keys of copies that are not there. ``late`` was written while the zone was read: the
        kernel is asked for what of it was not seen."""
        written = list(late)
        out: dict[int, Hashes] = {}
        for index, zone in enumerate(self._zones):
            ledger = self._copies.of(self._udn, zone.ref.key)
            for at, parsed in written:
                if at == index:
                    self._ask(zone, parsed)
            missing = ledger.unseen()
            if missing.size:
                ledger.forget(missing)
                out[index] = missing
        return out

    def _ask(self, zone: Zone, parsed: Parsed) -> None:
        ledger = self._copies.of(self._udn, zone.ref.key)
        doubtful = ledger.doubtful(parsed.keys)
        if not doubtful.any():
            return
        asked = parsed.batch.pick(doubtful)
        absent = absent_records(self._worker.socket, zone.number, asked, self._worker.transformer)
        keys, identities = parsed.keys[doubtful], parsed.identities[doubtful]
        if len(absent):
            there = ~among(keys, absent.keys())
            keys, identities = keys[there], identities[there]
        ledger.tick(keys, identities)

    def ended(self) -> dict[int, Hashes]:
        """Zone index -> keys of copies whose end the kernel has told since the last call."""
        out: dict[int, Hashes] = {}
        while True:
            reading = self._events.read()
            self._lost = self._lost or reading.resync
            for index, zone in enumerate(self._zones):
                found = reading.zones.get(zone.number)
                if found is None or not len(found.gone):
                    continue
                ledger = self._copies.of(self._udn, zone.ref.key)
                gone = found.gone.pick(ledger.matches(found.gone.keys(), found.gone.identities()))
                if len(gone) > _ASKED_MAX:
                    self._lost = True
                elif len(gone):
                    absent = absent_records(
                        self._worker.socket, zone.number, gone, self._worker.transformer
                    ).keys()
                    ledger.forget(absent)
                    out[index] = joined([out.get(index, absent[:0]), absent])
            if not reading.count:
                break
        if self._lost:
            self._lost = False
            self.begin()
            for index, missing in self.finish().items():
                out[index] = joined([out.get(index, missing[:0]), missing])
        return out
