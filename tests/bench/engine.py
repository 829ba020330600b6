"""The engine in one process between two namespaces: one measurement, started anew for each.

    python -m tests.bench.engine MODE SOURCE TARGET ENTRIES

Prints one JSON object: entries, wall_s, cpu_s, peak_mib. A process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from ovnmig.conntrack import (
    Applier,
    Batch,
    Group,
    Ledger,
    NetlinkSocket,
    decode,
    dump_zones,
    encode,
    read_zone,
)
from tests.bench.conntrack import ZONE_A, ZONE_B, sessions
from tests.bench.places import peak_mib
from tests.netns.spaces import inside

CHANGED_SHARE = 0.01
_CLOSE_WAIT = 5 << 24


def serial(read: NetlinkSocket, write: NetlinkSocket) -> int:
    """Dump, transform and insert in one thread, piece by piece: what ``copy.c`` does."""
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


def changed(batch: Batch, share: float = CHANGED_SHARE) -> Batch:
    """A share of the sessions with another TCP state."""
    group = batch.groups[0]
    values = group.values[:: max(1, round(1 / share))].copy()
    state = np.full(values.shape[0], _CLOSE_WAIT, dtype=">u4").view(np.uint32)
    values[:, group.shape.at("state")] = state
    return Batch((Group(group.shape, values),))


def timed(action: Callable[[], int]) -> dict[str, float]:
    """Runs it; wall and CPU seconds of this process, kernel work included."""
    before, start = time.process_time(), time.perf_counter()
    entries = action()
    wall, cpu = time.perf_counter() - start, time.process_time() - before
    return {"entries": entries, "wall_s": wall, "cpu_s": cpu, "peak_mib": peak_mib()}


def final_sync(read: NetlinkSocket, write: NetlinkSocket, entries: int) -> dict[str, float]:
    """Full transfer first; then some sessions change and only the difference is found, sent and applied."""
    whole = read_zone(read, ZONE_A)
    ledger = Ledger()
    ledger.record(whole)
    applier = Applier(write)
    applier.apply(whole, ZONE_B)
    some = changed(sessions(entries))
    Applier(read).refresh(some, ZONE_A)

    def sync() -> int:
        difference = ledger.compare(read_zone(read, ZONE_A))
        outcome = applier.apply(decode(encode(difference.changed)), ZONE_B)
        ledger.record(difference.changed)
        return len(difference) if outcome.applied == len(some) == len(difference) else -1

    result = timed(sync)
    if result["entries"] < 0:
        raise SystemExit("the final sync did not carry exactly the sessions that changed")
    Applier(read).refresh(sessions(entries), ZONE_A)
    return result | {"entries": entries}


def main() -> None:
    """One measurement."""
    mode, source, target, entries = sys.argv[1:]
    with inside(source, NetlinkSocket) as read, inside(target, NetlinkSocket) as write:
        if mode == "final-sync":
            result = final_sync(read, write, int(entries))
        elif mode == "pipelined":
            result = timed(lambda: pipelined(read, write))
        elif mode == "dump":
            result = timed(lambda: sum(len(batch) for _, batch in dump_zones(read, [ZONE_A])))
        else:
            result = timed(lambda: serial(read, write))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
