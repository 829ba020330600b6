"""Samples of all rounds become rows: medians, ratios within a round, targets, the file and the table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

C = "(e) C program"
ENGINE = "(a) engine in one process"
THREADS = "(a) with two threads"
AGENTS = "(b) agent to agent, TLS"
TOOL = "(c) conntrack -L | -R"
REPLICATE = "(d) conntrackd: replicate"
COMMIT = "(d) conntrackd: commit"
PYROUTE2 = "(f) pyroute2"
SYNC_PROCESS = "final sync, one process"
SYNC_AGENTS = "final sync, agent to agent"
BIRTHS = "20,000 births/s replicated"

Sample = dict[str, Any]
Key = tuple[str, int]
Row = dict[str, Any]


@dataclass(slots=True)
class Book:
    """Samples by name and number of entries, one per round in order; reasons of what is absent."""

    samples: dict[Key, list[Sample]] = field(default_factory=dict)
    absent: dict[Key, str] = field(default_factory=dict)

    def note(self, name: str, entries: int, sample: Sample) -> None:
        """Takes a measurement. Raises RuntimeError when entries did not arrive: such a time means nothing."""
        if sample["entries"] != entries:
            raise RuntimeError(f"{name}: {sample['entries']} of {entries} entries")
        self.samples.setdefault((name, entries), []).append(sample)

    def give_up(self, name: str, entries: int, reason: str) -> None:
        """The row stays empty, with this reason."""
        self.absent.setdefault((name, entries), reason)

    def median(self, name: str, entries: int, value: str) -> float | None:
        """Of all rounds; None without any."""
        found = [one[value] for one in self.samples.get((name, entries), ()) if one.get(value) is not None]
        return statistics.median(found) if found else None

    def ratio(self, name: str, other: str, entries: int, value: str = "wall_s") -> float | None:
        """How much faster ``name`` is than ``other``: median over rounds of the ratio within a round."""
        mine, theirs = self.samples.get((name, entries), []), self.samples.get((other, entries), [])
        pairs = [b[value] / a[value] for a, b in zip(mine, theirs, strict=False) if a[value]]
        return statistics.median(pairs) if pairs else None

    def rows(self) -> list[Row]:
        """All rows, empty ones too."""
        return [
            self._row(*key) for key in (*self.samples, *(k for k in self.absent if k not in self.samples))
        ]

    def _row(self, name: str, entries: int) -> Row:
        wall = self.median(name, entries, "wall_s")
        ratio, cpu_ratio = self.ratio(name, C, entries), self.ratio(name, C, entries, "cpu_s")
        if ratio is None and wall and name == PYROUTE2:
            # measured with fewer entries, so compared by the entry
            sizes = [size for other, size in self.samples if other == C and size > entries]
            if sizes and (limit := self.median(C, min(sizes), "wall_s")):
                ratio = (entries / wall) / (min(sizes) / limit)
        peak = self.median(name, entries, "peak_mib")
        row: Row = {
            "name": name,
            "entries": entries,
            "wall_s": _rounded(wall, 4),
            "cpu_s": _rounded(self.median(name, entries, "cpu_s"), 4),
            "entries_per_s": round(entries / wall) if wall else None,
            "ratio_to_c": None if name in (BIRTHS, SYNC_PROCESS, SYNC_AGENTS) else _rounded(ratio, 3),
            "peak_mib": _rounded(peak, 1),
            "cpu_ratio_to_c": None if name in (BIRTHS, SYNC_PROCESS, SYNC_AGENTS) else _rounded(cpu_ratio, 3),
            "samples": len(self.samples.get((name, entries), ())),
        }
        if (name, entries) in self.absent:
            row["reason"] = self.absent[name, entries]
        extra = [one for one in self.samples.get((name, entries), ()) if len(one) > 5]
        if extra:
            row["detail"] = {k: v for k, v in extra[-1].items() if k not in row}
        return row


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for; ``value`` is None when it was not measured."""

    text: str
    value: float | None
    met: Callable[[float], bool]

    @property
    def verdict(self) -> str:
        """A word for the table."""
        if self.value is None:
            return "not measured"
        return "met" if self.met(self.value) else "MISSED"


def targets(book: Book, sizes: Iterable[int], largest: int) -> list[Target]:
    """The targets of the project, with what this run gave."""
    out = []
    for size in sizes:
        of = f"at {size:,} entries"
        out += [
            Target(f"(a) / (e), wall, {of}: at least 0.90", book.ratio(ENGINE, C, size), lambda x: x >= 0.90),
            Target(
                f"(a) / (e), CPU, {of}: at least 0.85",
                book.ratio(ENGINE, C, size, "cpu_s"),
                lambda x: x >= 0.85,
            ),
            Target(f"(b) / (e), wall, {of}: at least 1.0", book.ratio(AGENTS, C, size), lambda x: x >= 1.0),
        ]
        for name in (ENGINE, THREADS, AGENTS):
            out.append(
                Target(f"{name} / (c), {of}: at least 2.5", book.ratio(name, TOOL, size), lambda x: x >= 2.5)
            )
            if (COMMIT, size) in book.samples or (COMMIT, size) in book.absent:
                ratio = book.ratio(name, COMMIT, size)
                out.append(Target(f"{name} / (d) commit, {of}: at least 1.4", ratio, lambda x: x >= 1.4))
    sync = _inverse(book.ratio(SYNC_AGENTS, AGENTS, 10_000))
    out.append(Target("final sync of 10,000, 1 % changed / full: at most 0.25", sync, lambda x: x <= 0.25))
    for sample in [s for (name, _), all_ in book.samples.items() if name == BIRTHS for s in all_[-1:]]:
        cores = max(sample["cores_by_side"].values())
        out.append(Target("20,000 births/s: less than one core a side", cores, lambda x: x < 1.0))
        out.append(
            Target("20,000 births/s: rate that was fed", sample["births_per_s"], lambda x: x >= 19_000)
        )
        out.append(Target("20,000 births/s: none missing", float(sample["missing"]), lambda x: x == 0))
    peak = book.median(AGENTS, largest, "peak_mib")
    out.append(Target(f"memory of an agent at {largest:,}: at most 300 MiB", peak, lambda x: x <= 300))
    return out


def table(rows: list[Row], aims: list[Target]) -> str:
    """For people."""
    head = ("", "entries", "wall s", "CPU s", "entries/s", "/ C wall", "/ C CPU", "MiB", "rounds")
    names = (
        "entries",
        "wall_s",
        "cpu_s",
        "entries_per_s",
        "ratio_to_c",
        "cpu_ratio_to_c",
        "peak_mib",
        "samples",
    )
    lines = [_line(head)]
    for row in rows:
        lines.append(_line([row["name"], *(row[name] for name in names)]) + _note(row))
    lines.append("")
    lines += [f"{aim.verdict:<13} {_shown(aim.value):>9}  {aim.text}" for aim in aims]
    return "\n".join(lines)


def write(path: Path, rounds: int, rows: list[Row], aims: list[Target]) -> None:
    """The file for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = [{"target": aim.text, "value": _rounded(aim.value, 4), "verdict": aim.verdict} for aim in aims]
    path.write_text(json.dumps({"rounds": rounds, "rows": rows, "targets": told}, indent=1) + "\n")


def _note(row: Row) -> str:
    return f"  {row['reason']}" if "reason" in row else ""


def _line(cells: Iterable[Any]) -> str:
    first, *others = cells
    return f"{first:<28}" + "".join(f"{_shown(cell):>11}" for cell in others)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}" if value < 1000 else f"{value:,.0f}"


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(float(value), digits)


def _inverse(value: float | None) -> float | None:
    return 1 / value if value else None
