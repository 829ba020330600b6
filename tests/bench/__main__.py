"""Everything side by side in one run: ``make bench``.

    python -m tests.bench [--rounds 5] [--million-rounds 1] [--births-s 8] [--quick] [--json FILE]

Root needed. Rounds are interleaved: each runs every candidate once, in an order that moves on from round to
round, so that whatever else the machine does hits all of them. Exit code 0 also when a target is missed; 1
when entries did not arrive.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import agents, report, tools
from tests.bench.conntrack import sessions
from tests.bench.places import NotHere, Place, places, room_for
from tests.bench.report import Book

SMALL, MIDDLE, LARGE = 10_000, 100_000, 1_000_000
_FEW = 2_000
_ROOM_ABOVE = 100_000


class Bench:
    """One run."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Progress, with the time since the start."""
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", file=sys.stderr, flush=True)

    def measure(
        self, entries: int, target: Place, names: tuple[str, ...], action: Callable[[], object]
    ) -> None:
        """One candidate once; a tool that is not to be had leaves its rows empty."""
        if any((name, entries) in self.book.absent for name in names):
            return
        target.empty()
        try:
            result = action()
        except NotHere as reason:
            for name in names:
                self.book.give_up(name, entries, str(reason))
            self.say(f"{names[0]}: {reason}")
            return
        samples = result if isinstance(result, tuple) else (result,)
        for name, sample in zip(names, samples, strict=True):
            self.book.note(name, entries, sample)
            self.say(
                f"{name:<28} {entries:>9,} entries  {sample['wall_s']:7.3f} s  CPU {sample['cpu_s']:7.3f} s"
            )

    def compare(self, source: Place, target: Place, entries: int, rounds: int, *, tools_too: bool) -> None:
        """All candidates, round by round."""
        candidates: list[tuple[tuple[str, ...], Callable[[], object]]] = [
            ((report.C,), lambda: tools.copy(source, target)),
            ((report.ENGINE,), lambda: tools.engine("serial", source, target, entries)),
            ((report.AGENTS,), lambda: agents.transfer(source, target, entries)),
            ((report.THREADS,), lambda: tools.engine("pipelined", source, target, entries)),
            ((report.TOOL,), lambda: tools.conntrack(source, target)),
        ]
        if tools_too:
            both = (report.REPLICATE, report.COMMIT)
            candidates.append((both, lambda: tools.conntrackd(source, target, entries)))
        source.fill(sessions(entries))
        for number in range(rounds):
            self.say(f"round {number + 1} of {rounds}, {entries:,} entries")
            first = number % len(candidates)
            for names, action in candidates[first:] + candidates[:first]:
                self.measure(entries, target, names, action)
        target.empty()

    def final_sync(self, source: Place, target: Place, entries: int, rounds: int) -> None:
        """The hand-over with one in a hundred changed, beside the full transfer that it follows."""
        if source.count() != entries:
            source.empty()
            source.fill(sessions(entries))
        pair = (
            (report.AGENTS, report.SYNC_AGENTS)
            if entries == SMALL
            else ("full before it", report.SYNC_AGENTS)
        )
        for _ in range(rounds):
            self.measure(entries, target, pair, lambda: agents.final_sync(source, target, entries))
            if entries == SMALL:
                self.measure(entries, target, (report.C,), lambda: tools.copy(source, target))
                engine = (report.ENGINE,)
                self.measure(entries, target, engine, lambda: tools.engine("serial", source, target, entries))
            sync = (report.SYNC_PROCESS,)
            self.measure(entries, target, sync, lambda: tools.engine("final-sync", source, target, entries))

    def few(self, source: Place, target: Place) -> None:
        """pyroute2 with as many entries as it copies in a few seconds."""
        source.empty()
        source.fill(sessions(_FEW))
        self.measure(_FEW, target, (report.PYROUTE2,), lambda: tools.pyroute2(source, target))

    def births(self, source: Place, target: Place, seconds: float) -> None:
        """Replication of new connections at a steady rate."""
        source.empty()
        entries = int(agents.BIRTHS_PER_S * seconds)
        target.empty()
        try:
            sample = agents.replication(source, target, seconds)
        except NotHere as reason:
            self.book.give_up(report.BIRTHS, entries, str(reason))
            return
        self.book.samples[report.BIRTHS, entries] = [sample | {"entries": entries}]
        cores = ", ".join(f"{side} {value:.2f}" for side, value in sample["cores_by_side"].items())
        self.say(
            f"{report.BIRTHS}: {sample['births_per_s']:,.0f}/s for {seconds:.0f} s; cores: {cores};"
            f" lag {sample['lag_median_s']:.2f} s, at most {sample['lag_max_s']:.2f} s;"
            f" whole {sample['catch_up_s']:.2f} s after the last birth; missing {sample['missing']}"
        )


def run(options: argparse.Namespace) -> Book:
    """All measurements."""
    book = Book()
    bench = Bench(book)
    with places() as (source, target):
        bench.compare(source, target, MIDDLE, options.rounds, tools_too=True)
        bench.final_sync(source, target, MIDDLE, options.rounds)
        bench.final_sync(source, target, SMALL, options.rounds)
        bench.few(source, target)
        source.set_events(1)
        bench.births(source, target, options.births_s)
    if options.million_rounds:
        try:
            with room_for(LARGE + _ROOM_ABOVE), places() as (source, target):
                bench.compare(source, target, LARGE, options.million_rounds, tools_too=False)
                source.empty()
        except OSError as error:
            for name in (report.C, report.ENGINE, report.AGENTS, report.TOOL):
                book.give_up(
                    name, LARGE, f"nf_conntrack_max cannot be raised to {LARGE + _ROOM_ABOVE:,}: {error}"
                )
    return book


def main() -> int:
    """Measures, prints the table, writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--million-rounds", type=int, default=1, help="0 leaves the million out")
    parser.add_argument("--births-s", type=float, default=8.0, help="seconds of new connections")
    parser.add_argument("--quick", action="store_true", help="two rounds, no million")
    parser.add_argument("--json", type=Path, default=Path("out/bench/conntrack.json"))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.million_rounds = 2, 0
    if os.geteuid():
        print("bench: network namespaces need root", file=sys.stderr)
        return 1
    # An end from outside also has to put nf_conntrack_max back and remove the namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        book = run(options)
    except RuntimeError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    rows = book.rows()
    sizes = (MIDDLE, LARGE) if options.million_rounds else (MIDDLE,)
    aims = report.targets(book, sizes, LARGE)
    report.write(options.json, options.rounds, rows, aims)
    print(report.table(rows, aims))
    print(f"\nwritten to {options.json}; what the figures mean: docs/performance.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
