"""Counts of a transfer that add up: every distinct entry read has one fate, however often it was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from ovnmig.agent.frames import Frame
from ovnmig.conntrack import Batch, Hashes, KeyTable, Ledger
from ovnmig.core.transfer import Counts

NAMED_MAX: Final = 100
_FAMILIES: Final = {2: "4", 10: "6"}
_PROTOCOLS: Final = {
    1: "icmp",
    6: "tcp",
    17: "udp",
    33: "dccp",
    47: "gre",
    58: "icmpv6",
    132: "sctp",
    136: "udplite",
}


class Tally:
    """Fates of a transfer's entries.

    A batch is split with :meth:`fresh` before it is sent, so that an answer is either about entries never
    sent before, whose counts are added, or about ones that have a fate already. Of those a refused or lost
    one can change its fate to created, and any to refused: its tuple may have been born again with another
    translation, which something on the target stands in the way of.
    """

    def __init__(self) -> None:
        self._seen: dict[str, KeyTable] = {}
        self._kinds: Counter[str] = Counter()
        self._fates = {"created": 0, "identical": 0, "replaced": 0}
        self._refused: dict[tuple[str, int], str] = {}  # one tuple may be in several zones
        self._lost: set[tuple[str, int]] = set()
        self._unmovable: Mapping[str, int] = {}
        self._waiting = 0
        self.words: list[str] = []
        self.synced_at: float | None = None
        """When the target last answered for everything sent before (monotonic seconds)."""
        self.put_back = 0
        """Copies that had vanished from the target and were sent again; their fate does not change."""

    def fresh(self, zone_key: str, batch: Batch) -> tuple[Batch, Batch]:
        """The records never sent before (now counted as read), and the others."""
        new = self._of(zone_key).add_new(batch.keys())
        first, again = batch.pick(new), batch.pick(~new)
        self._count(first, 1)
        return first, again

    def unseen(self, zone_key: str, batch: Batch) -> Batch:
        """The records never sent before, nothing counted."""
        return batch.pick(~self._of(zone_key).holds(batch.keys()))

    def take_back(self, zone_key: str, first: Batch) -> None:
        """These were sent and never answered: as if never read."""
        self._of(zone_key).remove(first.keys())
        self._count(first, -1)

    def settle(
        self,
        zone_key: str,
        batch: Batch,
        first: bool,
        ack: Frame,
        not_applied: Mapping[int, str],
        over: bool = False,
    ) -> None:
        """Take the target's answer about a batch. ``over``: after the hand-over, when the target's own entry
        counts and a refusal changes no fate."""
        if first:
            self._waiting -= len(batch)
            for name in self._fates:
                self._fates[name] += ack.number(name, 0)
            self._refused.update({(zone_key, key): reason for key, reason in not_applied.items()})
        elif self._refused or self._lost or (not_applied and not over):
            for key in batch.keys().tolist():
                entry = (zone_key, key)
                if key in not_applied:
                    self._refuse(entry, not_applied[key], over)
                elif self._refused.pop(entry, None) is not None or entry in self._lost:
                    self._lost.discard(entry)
                    self._fates["created"] += 1
        for word in ack.items("refused"):
            if isinstance(word, str) and word not in self.words and len(self.words) < NAMED_MAX:
                self.words.append(word)

    def _refuse(self, entry: tuple[str, int], reason: str, over: bool) -> None:
        """An entry that has a fate was refused when it was sent again."""
        if entry not in self._refused:
            if over:
                return
            if entry in self._lost:
                self._lost.discard(entry)
            else:
                # Which of them it had is not remembered; the sum is what has to be right.
                fate = next((name for name, count in self._fates.items() if count), None)
                if fate is None:
                    return
                self._fates[fate] -= 1
        self._refused[entry] = reason

    def lose(self, entries: Iterable[tuple[str, int]]) -> None:
        """The target's kernel accepted these (zone, key), yet never had them when its zone was read back."""
        for entry in entries:
            if entry not in self._lost and entry not in self._refused and self._fates["created"]:
                self._fates["created"] -= 1
                self._lost.add(entry)

    def forget(self, zone_key: str, keys: Hashes) -> None:
        """These entries are over. A standing transfer would remember every session there ever was."""
        self._of(zone_key).remove(keys)
        if self._refused or self._lost:
            for key in keys.tolist():
                self._refused.pop((zone_key, key), None)
                self._lost.discard((zone_key, key))

    def retain(self, zone_key: str, ledger: Ledger) -> None:
        """Entries of a zone but those of the ledger are over."""
        seen = self._of(zone_key)
        keys = seen.keys_at(seen.taken())
        self.forget(zone_key, keys[~ledger.holds(keys)])

    def unmovable(self, skipped: Mapping[str, int]) -> None:
        """Entries of the last dump that cannot be carried at all, by reason."""
        self._unmovable = dict(skipped)

    def refused_keys(self, zone_key: str) -> set[int]:
        """Entries of a zone that the target has refused."""
        return {key for zone, key in self._refused if zone == zone_key}

    def counts(self, *, over: bool = False) -> Counts:
        """The sum so far; ``over``: nothing more will be answered, what is still waiting is lost."""
        refused = Counter(self._refused.values())
        refused.update(self._unmovable)
        lost = len(self._lost) + (self._waiting if over else 0)
        read = sum(self._fates.values()) + self._waiting + len(self._lost) + refused.total()
        return Counts(read=read, lost=lost, refused=dict(refused), kinds=dict(self._kinds), **self._fates)

    def _of(self, zone_key: str) -> KeyTable:
        return self._seen.setdefault(zone_key, KeyTable())

    def _count(self, batch: Batch, sign: int) -> None:
        self._waiting += sign * len(batch)
        for group in batch:
            flow = group.shape.spec
            protocol = _PROTOCOLS.get(flow.flow.proto, f"proto-{flow.flow.proto}")
            self._kinds[f"{protocol}/{_FAMILIES[flow.family]}"] += sign * len(group)
