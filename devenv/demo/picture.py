"""The picture of a demo: each session's traffic over time, run below run, as SVG from the report alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from devenv.demo.judge import Move, Record, gaps

BIN_S = 0.25
"""A bar stands for this long; a shorter gap is told in figures and as a mark, not as a missing bar."""
TOLD_STALL_MS = 50.0
"""A stall shorter than this gets no mark: it is within what the demo's own programs make."""

_WIDTH, _LEFT, _RIGHT = 1180, 190, 150
_LANE, _HEAD, _FOOT, _TOP = 15, 44, 30, 64
_LIVES, _DEAD, _DIES, _STALL = "#2a7f9e", "#b9a3a0", "#c0392b", "#e08e0b"
_MOVE, _TEXT, _DIM = "#efe9d8", "#222", "#777"


def timeline(
    records: Sequence[Record], told: Sequence[Mapping[str, Any]], moves: Sequence[Move]
) -> dict[str, Any]:
    """What the picture needs of a run, as plain data. Times are seconds since all its sessions were open.

    ``counts`` are arrivals at the VM per bin of ``bin_s``; ``gap`` is the longest silence from the first move
    on, as [begin, length], in a direction that counts.
    """
    zero = min(r.settled for r in records)
    length_s = max(r.planned_end for r in records) - zero
    first = min((m.began for m in moves), default=zero)
    lanes = []
    for record, session in zip(records, told, strict=True):
        bins = Counter(int((t - zero) / BIN_S) for t in record.to_vm if zero <= t < zero + length_s)
        silences = [
            (length, begin)
            for times in record.directions().values()
            for begin, length in gaps(times, first, record.planned_end)
        ]
        length, begin = max(silences, default=(0.0, zero))
        lanes.append(
            {
                "name": session["name"],
                "counts": [bins[n] for n in range(int(length_s / BIN_S) + 1)],
                "gap": [round(begin - zero, 3), round(length, 3)],
            }
        )
    return {
        "bin_s": BIN_S,
        "length_s": round(length_s, 3),
        "moves": [[round(m.began - zero, 3), round(m.ended - zero, 3)] for m in moves],
        "lanes": lanes,
    }


def draw(report: Mapping[str, Any]) -> str:
    """The whole picture; runs that recorded no timeline are left out."""
    runs = [run for run in report["runs"] if "timeline" in run]
    longest = max((run["timeline"]["length_s"] for run in runs), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    heights = [_HEAD + _LANE * len(run["timeline"]["lanes"]) + _FOOT for run in runs]
    height = _TOP + sum(heights)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        _text(16, 26, "Sessions of virtual machines that move to another chassis", size=17),
        _text(
            16,
            46,
            f"OVN {report['ovn']}, Linux {report['kernel']}. A line is a session, a bar what reached its VM "
            f"in {BIN_S} s (1 = its median). Shaded: the move; orange: longest silence since; red: nothing.",
            _DIM,
        ),
    ]
    top = float(_TOP)
    for run, high in zip(runs, heights, strict=True):
        parts += _panel(run, top, scale)
        top += high
    return "\n".join([*parts, "</svg>"]) + "\n"


def write(report: Mapping[str, Any], folder: Path) -> Path:
    """Write ``timeline.svg`` into ``folder``, complete or not at all; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "timeline.svg"
    part = folder / "timeline.svg.part"
    part.write_text(draw(report))
    part.replace(target)
    return target


def _panel(run: Mapping[str, Any], top: float, scale: float) -> Iterator[str]:
    data = run["timeline"]
    floor = top + _HEAD + _LANE * len(data["lanes"])
    right = _LEFT + data["length_s"] * scale
    yield _text(16, top + 16, f"{run['name']}: {run['says']}", size=14)
    yield _text(_WIDTH - 16, top + 16, f"{run['survived']} of {run['total']} live on", size=14, anchor="end")
    for number, (began, ended) in enumerate(data["moves"], 1):
        yield _box(
            _LEFT + began * scale, top + _HEAD - 4, (ended - began) * scale, floor - top - _HEAD + 4, _MOVE
        )
        yield _text(_LEFT + began * scale, top + _HEAD - 8, f"move {number}: {ended - began:.1f} s", _DIM)
    yield _text(_LEFT, top + _HEAD - 8, "baseline", _DIM)
    for index, (lane, session) in enumerate(zip(data["lanes"], run["sessions"], strict=True)):
        yield from _lane(lane, session, data["bin_s"], top + _HEAD + _LANE * index, scale)
    yield _box(_LEFT, floor + 1, right - _LEFT, 1, _DIM)
    for second in range(0, int(data["length_s"]) + 1, 10):
        yield _text(_LEFT + second * scale, floor + 14, f"{second} s", _DIM, anchor="middle")


def _lane(
    lane: Mapping[str, Any], session: Mapping[str, Any], bin_s: float, top: float, scale: float
) -> Iterator[str]:
    lives = session["survived"]
    yield _text(_LEFT - 8, top + 11, session["name"], anchor="end")
    busy = sorted(n for n in lane["counts"] if n)
    usual = busy[len(busy) // 2] if busy else 1
    high = _LANE - 3
    bars, wide = [], bin_s * scale
    for place, count in enumerate(lane["counts"]):
        if count:
            tall = high * min(1.0, count / usual)
            bars.append(
                f"M{_LEFT + place * wide:.1f} {top + 1 + high - tall:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}z"
            )
    colour = _LIVES if lives else _DEAD
    yield f'<path fill="{colour}" d="' + "".join(bars) + '"/>'
    begin, length = lane["gap"]
    stalls = lives and session["stall_ms"] >= TOLD_STALL_MS
    if stalls or not lives:
        yield _box(_LEFT + begin * scale, top + 5, max(2.0, length * scale), 4, _STALL if stalls else _DIES)
    if not lives:
        word = "died"
    else:
        word = (
            f"lives, stall {session['stall_ms']:.0f} ms"
            if stalls
            else f"lives, stall < {TOLD_STALL_MS:.0f} ms"
        )
    yield _text(_WIDTH - 16, top + 11, word, _LIVES if lives else _DIES, anchor="end")


def _text(
    x: float, y: float, words: str, colour: str = _TEXT, *, size: int = 11, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def _box(x: float, y: float, wide: float, high: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{colour}"/>'
