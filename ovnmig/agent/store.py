"""What an agent remembers while it runs: epochs as fences, and which entries of each zone are copies it made.

Nothing here outlives the process. After a restart the copies are still in the kernel; a stream that is sent
again finds them identical, and the database's epoch comes with the next order.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from ovnmig.conntrack import Batch, Ledger
from ovnmig.core.transfer import ZoneRef

Keys = Any
"""Sorted or unsorted 64-bit keys as the conntrack package makes them (its array library stays in there)."""


class StaleEpoch(Exception):
    """An order or a stream of an epoch that has been superseded; the text names both."""


class Fence:
    """The highest epoch seen for each UDN; what comes with a lower one has lost its turn."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}

    def pass_through(self, udn: str, epoch: int, what: str) -> None:
        """Remember ``epoch``, or raise StaleEpoch when a higher one was seen."""
        highest = self._epochs.get(udn, 0)
        if epoch < highest:
            raise StaleEpoch(f"{what} of epoch {epoch} for UDN {udn!r} came after one of epoch {highest}")
        self._epochs[udn] = epoch

    def highest(self, udn: str) -> int:
        """The highest epoch seen for a UDN; 0 for none."""
        return self._epochs.get(udn, 0)


class Copies:
    """Per UDN and zone (wire name): the entries that streams from other agents put here."""

    def __init__(self) -> None:
        self._ledgers: dict[tuple[str, str], Ledger] = {}
        self._locks: dict[str, Lock] = {}
        self._kept: dict[str, tuple[ZoneRef, ...]] = {}

    def lock(self, udn: str) -> Lock:
        """Held while a thread changes a UDN's ledgers: streams of one UDN may overlap for a moment."""
        return self._locks.setdefault(udn, Lock())

    def keep(self, udn: str, zones: tuple[ZoneRef, ...]) -> None:
        """These zones are copied by a stream; those of others that were noted before stay."""
        self._kept[udn] = tuple(dict.fromkeys((*self.kept(udn), *zones)))

    def kept(self, udn: str) -> tuple[ZoneRef, ...]:
        """The zones of a UDN that streams have copied here; none: nothing of it came here."""
        return self._kept.get(udn, ())

    def of(self, udn: str, zone_key: str) -> Ledger:
        """The ledger of a zone; made on first use."""
        return self._ledgers.setdefault((udn, zone_key), Ledger())


def known(ledger: Ledger, keys: Keys) -> Keys:
    """A mask over ``keys``: which the ledger holds."""
    return ledger.holds(keys)


def split_known(ledger: Ledger, batch: Batch) -> tuple[Batch, Batch]:
    """The records of ``batch`` whose session the ledger holds, and the others."""
    mask = known(ledger, batch.keys())
    return batch.pick(mask), batch.pick(~mask)
