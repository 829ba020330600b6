"""What a soak showed: pure figures from what the VMs noted of their sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from devenv.demo.judge import percentile

Noted = Mapping[str, Mapping[str, Any]]
"""By VM: sessions `opened` and `ended` by kind, those `lost`, and the `replies` of those that probe."""


def sessions(noted: Noted, unprotected: Sequence[tuple[float, float]] = ()) -> dict[str, Any]:
    """How many sessions were opened, ended as planned and were lost. One that did neither counts as lost.

    Those that were born in an ``unprotected`` span (Unix seconds) and were lost are told apart: a foreign
    writer threw the gateway about before they were replicated.
    """
    opened: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    lost: list[dict[str, Any]] = []
    for vm, told in noted.items():
        opened.update(told["opened"])
        ended.update(told["ended"])
        lost += told["lost"]
        for kind, count in told["opened"].items():
            missing = count - told["ended"].get(kind, 0) - sum(one["kind"] == kind for one in told["lost"])
            why = "it neither ended nor failed"
            lost += [{"vm": vm, "kind": kind, "family": 0, "port": 0, "why": why}] * missing
    young = [one for one in lost if any(a <= one.get("opened", 0.0) < b for a, b in unprotected)]
    old = [one for one in lost if one not in young]
    return {
        "opened": dict(sorted(opened.items())),
        "ended": dict(sorted(ended.items())),
        "lost": len(old),
        "lost_list": old,
        "lost_before_replicated": len(young),
        "lost_before_replicated_list": young,
    }


def longest_ms(times: Sequence[float], since: float, until: float) -> float:
    """Longest silence in the span; what reaches in or out of it counts as far as it is inside."""
    inside = [since, *(t for t in times if since < t < until), until]
    return max(b - a for a, b in pairwise(inside)) * 1000


def gaps(
    noted: Noted, windows: Iterable[tuple[float, float]], calm: tuple[float, float]
) -> dict[str, dict[str, float]]:
    """By probing session: the longest silence in each move, and in pieces as long as a move of the calm."""
    spans = list(windows)
    found = {}
    for told in noted.values():
        for name, times in told["replies"].items():
            moved = [longest_ms(times, *span) for span in spans]
            length = min(3.0, calm[1] - calm[0])
            steps = int((calm[1] - calm[0] - length) / 0.5) + 1
            still = [longest_ms(times, calm[0] + k * 0.5, calm[0] + k * 0.5 + length) for k in range(steps)]
            found[name] = {
                "baseline_p50_ms": round(percentile(still, 0.5), 1),
                "gap_p50_ms": round(percentile(moved, 0.5), 1),
                "gap_p99_ms": round(percentile(moved, 0.99), 1),
                "gap_max_ms": round(max(moved, default=0.0), 1),
            }
    return found


def table(done: Mapping[str, Any]) -> str:
    """The soak for people."""
    lines = [f"  {done['moves']} moves in {done['duration_s']} s, with: {', '.join(sorted(done['faults']))}"]
    lines.append(f"  {'sessions':<10} {'opened':>8} {'ended':>8}")
    lines += [f"  {kind:<10} {n:>8} {done['ended'].get(kind, 0):>8}" for kind, n in done["opened"].items()]
    control = done["control"]["lost"]
    lines.append(f"  lost: {done['lost']}; left behind: {done['leftovers']}; the control lost {control}")
    young = done["lost_before_replicated"]
    lines.append(f"  lost at foreign flips before they were replicated: {young}")
    lines.append(f"  {'silence of':<16} {'at rest p50':>12} {'moved p50':>12} {'p99':>8} {'max':>8}  (ms)")
    for name, one in done["gap"].items():
        lines.append(
            f"  {name:<16} {one['baseline_p50_ms']:>12} {one['gap_p50_ms']:>12} "
            f"{one['gap_p99_ms']:>8} {one['gap_max_ms']:>8}"
        )
    return "\n".join(lines)
