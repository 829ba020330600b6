"""Rates of the conntrack engine beside ``conntrack -L -o save | conntrack -R``, in this machine's kernel.

    python -m tests.bench.conntrack [--entries 100000] [--rounds 3] [--json out/bench/conntrack.json]

Root, ip(8) and conntrack(8) needed. Each row starts with an empty target namespace; medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import queue
import resource
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ovnmig.conntrack import (
    Applier,
    Batch,
    Group,
    Ledger,
    NetlinkSocket,
    Transformer,
    decode,
    dump_zones,
    encode,
    missing_records,
    read_zone,
)
from ovnmig.conntrack.messages import IPPROTO_TCP, Status
from ovnmig.conntrack.shape import shape_of
from ovnmig.conntrack.spec import L4, Flow, Spec
from tests.netns.spaces import inside, namespaces, run

ZONE_A, ZONE_B = 7, 4099
Row = dict[str, float | int | str]


def sessions(count: int) -> Batch:
    """Established TCP sessions of many VMs to many servers behind one address and translated ports."""
    shape = shape_of(Spec(2, Flow(IPPROTO_TCP, L4.PORTS), Status.SRC_NAT, info=True))
    number = np.arange(count)

    def wide(value: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(value.astype(">u4")).view(np.uint32)

    values = np.zeros((count, shape.width), dtype=np.uint32)
    port = number % 50000
    values[:, shape.at("orig_src")] = wide(0x0A010000 + number % 60000)
    values[:, shape.at("orig_dst")] = wide(0xAC100000 + number // 50000)
    values[:, shape.at("orig_sport")] = wide((10000 + port) << 16)
    values[:, shape.at("orig_dport")] = wide(np.full(count, 443 << 16))
    values[:, shape.at("nat_src")] = wide(np.full(count, 0xAC10FF64))
    values[:, shape.at("nat_src_port")] = wide((1024 + port) << 16)
    values[:, shape.at("status")] = wide(np.full(count, int(Status.SEEN_REPLY | Status.ASSURED)))
    values[:, shape.at("state")] = wide(np.full(count, 3 << 24))
    for name in ("wscale_orig", "wscale_reply"):
        values[:, shape.at(name)] = wide(np.full(count, 7 << 24))
    for name in ("flags_orig", "flags_reply"):
        values[:, shape.at(name)] = wide(np.full(count, 3 << 24))
    values[:, shape.at("timeout")] = wide(np.full(count, 80000))
    return Batch((Group(shape, (values & shape.keep) | shape.force),))


def serial(read: NetlinkSocket, write: NetlinkSocket) -> int:
    """Dump, transform and insert in one thread, piece by piece."""
    applier = Applier(write)
    return sum(applier.apply(batch, ZONE_B).created for _, batch in dump_zones(read, [ZONE_A]))


def pipelined(read: NetlinkSocket, write: NetlinkSocket) -> int:
    """Dump and transform in one thread, the wire form between, insert in another."""
    pieces: queue.Queue[bytes | None] = queue.Queue(8)

    def produce() -> None:
        for _, batch in dump_zones(read, [ZONE_A]):
            pieces.put(encode(batch))
        pieces.put(None)

    producer = threading.Thread(target=produce)
    producer.start()
    applier, created = Applier(write), 0
    while (piece := pieces.get()) is not None:
        created += applier.apply(decode(piece), ZONE_B).created
    producer.join()
    return created


def timed(action: Callable[[], int], children: bool = False) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds, and what the action returned."""
    kind = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    before, start = resource.getrusage(kind), time.perf_counter()
    result = action()
    wall = time.perf_counter() - start
    after = resource.getrusage(kind)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, result


def tool(source: str, target: str) -> int:
    """What an operator has today: conntrack(8) through a pipe, into the same zone number."""
    command = (
        f"ip netns exec {source} conntrack -L -w {ZONE_A} -o save 2>/dev/null"
        f" | ip netns exec {target} conntrack -R - 2>/dev/null"
    )
    subprocess.run(["sh", "-c", command], check=False)
    return int(run("ip", "netns", "exec", target, "conntrack", "-C"))


def measure(name: str, entries: int, source: str, read: NetlinkSocket, whole: Batch) -> tuple[float, float]:
    """One row once: a fresh target, the action, and the proof that everything is there."""
    with namespaces("t") as (target,), inside(target, NetlinkSocket) as write:
        if name == "conntrack -L | conntrack -R":
            wall, cpu, done = timed(lambda: tool(source, target), children=True)
        elif name == "dump and transform":
            wall, cpu, done = timed(lambda: sum(len(b) for _, b in dump_zones(read, [ZONE_A])))
        elif name == "insert":
            wall, cpu, done = timed(lambda: Applier(write).apply(whole, ZONE_B).created)
        elif name == "final sync, nothing changed":
            ledger = Ledger()
            ledger.record(whole)
            wall, cpu, left = timed(lambda: len(ledger.compare(read_zone(read, ZONE_A, Transformer()))))
            done = entries - left
        else:
            engine = serial if name == "engine, one thread" else pipelined
            wall, cpu, done = timed(lambda: engine(read, write))
            done -= len(missing_records(write, ZONE_B, whole))
        if done != entries:
            raise SystemExit(f"{name}: {done} of {entries} entries")
    return wall, cpu


def main() -> None:
    """Prints the table and writes the rows as JSON when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = [
        "dump and transform",
        "insert",
        "engine, one thread",
        "engine, pipelined",
        "final sync, nothing changed",
        "conntrack -L | conntrack -R",
    ]
    whole = sessions(options.entries)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with namespaces("s") as (source,), inside(source, NetlinkSocket) as read:
        made = Applier(read).apply(whole, ZONE_A)
        if made.created != options.entries:
            raise SystemExit(f"only {made.created} of {options.entries} entries fit: {made.refused}")
        for _ in range(options.rounds):
            for name in names:
                times[name].append(measure(name, options.entries, source, read, whole))
    rows: list[Row] = []
    for name in names:
        wall = statistics.median(t[0] for t in times[name])
        cpu = statistics.median(t[1] for t in times[name])
        rows.append(
            {
                "name": name,
                "entries": options.entries,
                "wall_s": round(wall, 3),
                "cpu_s": round(cpu, 3),
                "entries_per_s": round(options.entries / wall),
            }
        )
    base = rows[-1]["wall_s"]
    for row in rows:
        row["ratio_to_tool"] = round(float(base) / max(float(row["wall_s"]), 1e-9), 2)
        print(
            f"{row['name']:<32} {row['wall_s']:>7} s wall {row['cpu_s']:>7} s cpu"
            f" {row['entries_per_s']:>9} entries/s  {row['ratio_to_tool']:>6} x the tool"
        )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"rounds": options.rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
