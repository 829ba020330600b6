"""What a move did to probed sessions: pure figures from what the two ends of the probe noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from devenv.demo.judge import percentile

WINDOW_S = 5.0
"""A move's gap is looked for in this long after its order; the baseline in windows of the same length."""
STEP_S = 0.5
"""The baseline's windows begin this far from one another."""


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of all sessions: when each number left and when it came, in Unix seconds."""

    sent: Mapping[int, Sequence[float]]
    got: Mapping[int, Sequence[tuple[int, float]]]


def ways(client: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, Way]:
    """``out``: from the VM to the server; ``in``: back. From the ends' results as JSON made them."""

    def way(sender: Mapping[str, Any], taker: Mapping[str, Any]) -> Way:
        sent = {int(n): times for n, times in sender["sent"].items()}
        return Way(sent, {int(n): [(s, t) for s, t in all_] for n, all_ in taker["got"].items()})

    return {"out": way(client, server), "in": way(server, client)}


def longest_ms(way: Way, session: int, since: float) -> float:
    """Longest time between two arrivals in the window from ``since``; silence to its end counts."""
    until = since + WINDOW_S
    times = [t for _, t in way.got.get(session, ()) if since - 1.0 <= t <= until]
    found = [b - max(a, since) for a, b in pairwise([*times, until]) if b > since]
    return max(found, default=WINDOW_S) * 1000


def lost(way: Way, since: float, until: float) -> int:
    """Numbers that left in the time and never came, over all sessions."""
    count = 0
    for session, times in way.sent.items():
        came = {number for number, _ in way.got.get(session, ())}
        count += sum(since <= t < until and n not in came for n, t in enumerate(times))
    return count


def duplicates(way: Way) -> int:
    """Arrivals of a number that had come already."""
    return sum(len(all_) - len({n for n, _ in all_}) for all_ in way.got.values())


def silent(way: Way, since: float, until: float) -> int:
    """Sessions of which nothing came in the time."""
    return sum(not any(since <= t < until for _, t in way.got.get(n, ())) for n in way.sent)


def row(way: Way, close: int, baseline: tuple[float, float], moves: Sequence[float]) -> dict[str, Any]:
    """The figures of one direction. Gaps are of the first ``close`` sessions, losses of all.

    ``baseline`` is a time without moves, ``moves`` are when they were ordered.
    """
    begin, end = baseline
    count = max(1, int((end - begin - WINDOW_S) / STEP_S) + 1)
    calm = [longest_ms(way, n, begin + k * STEP_S) for n in range(close) for k in range(count)]
    gaps = [longest_ms(way, n, move) for n in range(close) for move in moves]
    return {
        "moves": len(moves),
        "sessions": len(way.sent),
        "sessions_probed_closely": close,
        "baseline_p50_ms": round(percentile(calm, 0.5), 1),
        "baseline_p99_ms": round(percentile(calm, 0.99), 1),
        "gap_p50_ms": round(percentile(gaps, 0.5), 1),
        "gap_p99_ms": round(percentile(gaps, 0.99), 1),
        "gap_max_ms": round(max(gaps, default=0.0), 1),
        "baseline_packets_lost": lost(way, begin, end),
        "packets_lost": sum(lost(way, move, move + WINDOW_S) for move in moves),
        "sessions_lost": max((silent(way, m + WINDOW_S, m + WINDOW_S + 2.5) for m in moves), default=0),
    }
