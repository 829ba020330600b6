"""Two agents, source and sink, as processes; what they are asked and what it cost them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ovnmig import pki
from ovnmig.conntrack import Batch, missing_records, read_zone
from ovnmig.pki import Identity, Role
from tests.bench.conntrack import ZONE_A, ZONE_B, sessions
from tests.bench.engine import changed
from tests.bench.places import NotHere, Place

Answer = dict[str, Any]
BIRTHS_PER_S = 20_000
_TICK_S = 0.02
_CATCH_UP_S = 30.0


class Agent:
    """One child process."""

    def __init__(self, role: str, name: str, place: Place, pki_dir: Path) -> None:
        words = [sys.executable, "-m", "tests.bench.agent_side", role, name, place.name, str(pki_dir)]
        self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def tell(self, do: str, name: str = "") -> None:
        """Gives a command; its answer is still to be read."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"do": do, "name": name}) + "\n")
        self._child.stdin.flush()

    def answer(self) -> Answer:
        """The next answer. Raises RuntimeError when the process has ended."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"an agent of the benchmark ended with status {self._child.wait(10)}")
        answer: Answer = json.loads(line)
        return answer

    def ask(self, do: str, name: str = "") -> Answer:
        """Command and answer."""
        self.tell(do, name)
        return self.answer()

    def stop(self) -> None:
        """Ends the process."""
        self._child.kill()
        self._child.wait()


class Pair:
    """A source and a sink that have met once, so that neither is cold."""

    def __init__(self, source: Agent, sink: Agent) -> None:
        self.source = source
        self.sink = sink

    def measure(self, do: str, name: str = "m1") -> Answer:
        """One command to the source; CPU seconds of both sides, memory of the larger one."""
        before = self.sink.ask("usage")["cpu_s"]
        answer = self.source.ask(do, name)
        after = self.sink.ask("usage")
        wanted = "final" if do == "final" else "in-step"
        if answer["state"] != wanted:
            peaks = f"source {answer['peak_mib']:.0f} MiB, sink {after['peak_mib']:.0f} MiB"
            raise NotHere(f"the transfer is {answer['state']}: {answer['reason']} (memory: {peaks})")
        sides = {"source": answer["spent_s"], "sink": after["cpu_s"] - before}
        memory = {"source": answer["peak_mib"], "sink": after["peak_mib"]}
        return {
            "entries": answer["applied"],
            "wall_s": answer["wall_s"],
            "cpu_s": sum(sides.values()),
            "peak_mib": max(memory.values()),
            "cpu_by_side_s": sides,
            "peak_by_side_mib": memory,
        }


@contextmanager
def agents(source: Place, target: Place) -> Iterator[Pair]:
    """Both agents, started, and warm from a transfer of no entries."""
    with TemporaryDirectory(prefix="ovb") as folder:
        pki_dir = Path(folder)
        pki.init_ca(pki_dir)
        for name in ("a", "b"):
            pki.issue(pki_dir, Identity(Role.CHASSIS, name))
        sink = Agent("sink", "b", target, pki_dir)
        try:
            sender = Agent("source", "a", source, pki_dir)
            try:
                pair = Pair(sender, sink)
                pair.measure("transfer", "warm")
                sender.ask("end", "warm")
                yield pair
            finally:
                sender.stop()
        finally:
            sink.stop()


def transfer(source: Place, target: Place, entries: int) -> Answer:
    """From the order until the target has read its zone back."""
    with agents(source, target) as pair:
        result = pair.measure("transfer")
    if target.count() != entries:
        raise RuntimeError(f"{target.count()} of {entries} entries arrived")
    return result


def final_sync(source: Place, target: Place, entries: int) -> tuple[Answer, Answer]:
    """A full transfer and then, with one in a hundred sessions changed unheard, the hand-over."""
    some = changed(sessions(entries))
    with agents(source, target) as pair:
        full = pair.measure("transfer")
        source.call(lambda: source.applier.refresh(some, ZONE_A))
        final = pair.measure("final")
    with_prints = missing_prints(target, some)
    source.call(lambda: source.applier.refresh(sessions(entries), ZONE_A))
    if with_prints:
        raise RuntimeError(f"{with_prints} changed sessions are not as on the source")
    return full, final | {"entries": entries}


def missing_prints(target: Place, wanted: Batch) -> int:
    """How many of the records the target does not hold in exactly that state."""
    held = target.call(lambda: read_zone(target.socket, ZONE_B))
    return int((~np.isin(wanted.prints(), held.prints())).sum())


def replication(source: Place, target: Place, seconds: float) -> Answer:
    """New connections at a steady rate while the transfer is in step: CPU of each side, lag, losses."""
    total = int(BIRTHS_PER_S * seconds)
    whole = sessions(total)
    group = whole.groups[0]
    per_tick = int(BIRTHS_PER_S * _TICK_S)
    lags: list[int] = []
    with agents(source, target) as pair:
        pair.measure("transfer")
        before = {"source": pair.source.ask("usage")["cpu_s"], "sink": pair.sink.ask("usage")["cpu_s"]}
        start = time.perf_counter()
        made = 0
        while made < total:
            part = group.pick(np.arange(made, min(made + per_tick, total)))
            source.fill(Batch((part,)))
            made += len(part)
            if made % (5 * per_tick) == 0:
                lags.append(made - target.count())
            time.sleep(max(0.0, start + made / BIRTHS_PER_S - time.perf_counter()))
        fed = time.perf_counter() - start
        while target.count() < total and time.perf_counter() - start < fed + _CATCH_UP_S:
            time.sleep(0.01)
        wall = time.perf_counter() - start
        after = {"source": pair.source.ask("usage"), "sink": pair.sink.ask("usage")}
    missing = len(target.call(lambda: missing_records(target.socket, ZONE_B, whole)))
    sides = {name: after[name]["cpu_s"] - before[name] for name in before}
    return {
        "entries": total - missing,
        "wall_s": wall,
        "cpu_s": sum(sides.values()),
        "peak_mib": max(after[name]["peak_mib"] for name in after),
        "cpu_by_side_s": sides,
        "cores_by_side": {name: spent / wall for name, spent in sides.items()},
        "births_per_s": total / fed,
        "lag_median_s": float(np.median(lags)) / BIRTHS_PER_S,
        "lag_max_s": max(lags) / BIRTHS_PER_S,
        "catch_up_s": wall - fed,
        "missing": missing,
    }
