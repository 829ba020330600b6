"""Outcome: what became of each record that was applied, as counts and as names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

NAMED_MAX: Final = 1000
"""Refusals kept with their text; beyond that they are only counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that was not applied: a reason of a fixed set, the entry, and who is in its way."""

    reason: str
    entry: str
    holder: str = ""


@dataclass(slots=True)
class Outcome:
    """Counts over applied records. Their sum is ``total``: every record has exactly one outcome.

    created: was not there. identical: the same session with the same translation was there.
    replaced: a mid-stream artefact of the same session stood there and gave way. refused: by reason.
    lost: the kernel accepted it, yet it was not there when the zone was read back.
    """

    created: int = 0
    identical: int = 0
    replaced: int = 0
    lost: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refusals: list[Refusal] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    not_applied: list[int] = field(default_factory=list)
    """Keys of refused and lost records."""
    causes: list[str] = field(default_factory=list)
    """The reason of each of ``not_applied``, in the same order."""

    @property
    def names_more(self) -> bool:
        """Whether there is room for another refusal with its text."""
        return len(self.refusals) < NAMED_MAX

    @property
    def total(self) -> int:
        """All records this tells about."""
        return self.created + self.identical + self.replaced + self.lost + self.refused.total()

    @property
    def applied(self) -> int:
        """Records whose session is in the kernel as sent."""
        return self.created + self.identical + self.replaced

    def name(self, keys: list[int], reason: str) -> None:
        """Keeps which records were not applied, and why."""
        self.not_applied.extend(keys)
        self.causes.extend([reason] * len(keys))

    def refuse(self, reason: str, entry: str, holder: str = "") -> None:
        """Counts a refusal and keeps its text while there is room."""
        self.refused[reason] += 1
        if self.names_more:
            self.refusals.append(Refusal(reason, entry, holder))

    def add(self, other: Outcome) -> None:
        """Adds another outcome to this one."""
        self.created += other.created
        self.identical += other.identical
        self.replaced += other.replaced
        self.lost += other.lost
        self.refused.update(other.refused)
        self.refusals.extend(other.refusals[: NAMED_MAX - len(self.refusals)])
        self.missing.extend(other.missing[: NAMED_MAX - len(self.missing)])
        self.not_applied.extend(other.not_applied)
        self.causes.extend(other.causes)
