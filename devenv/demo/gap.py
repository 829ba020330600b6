"""The gap of a gateway's move, measured: ovnmig's move beside plain OVN's change of priority."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devenv.demo import rest
from devenv.demo.gapcount import WINDOW_S, duplicates, row, ways
from devenv.demo.gapprobe import CLOSE_EVERY_S, WIDE_EVERY_S
from devenv.demo.stage import ANCHOR, PLAIN_ROUTER, SERVERS, SWITCH, Stage
from devenv.demo.traffic import Program
from devenv.guest import outside, ovn, shell, vm

VARIANTS = ("plain-ovn", "ovnmig")
CLOSE = 4
"""Sessions probed each 5 ms: what both ends in Python and one processor bear with little noise."""
CALM_S = 15.0
REST_S = WINDOW_S + 3.0
"""From a move's order to the next one's at least: its window, and the time in which lost sessions show."""

Say = Callable[[str], None]


def measure(stage: Stage, variant: str, moves: int, sessions: int, say: Say) -> list[dict[str, Any]]:
    """Rows of one variant, for IPv4: cold (the first visit to a chassis) and warm, each way.

    The VM is on the third chassis, the gateway moves back and forth between the other two.
    """
    say(f"gap, {variant}: {moves} moves with {sessions} sessions")
    stage.remove()
    stage.build_vms("c")
    if variant == "ovnmig":
        stage.create_gateway(follow=False)
    else:
        stage.create_plain_router()
        for letter, priority in (("a", 30), ("b", 20), ("c", 10)):
            order(stage, letter, priority)
        ovn.sync(stage.plan)
    stage.wait_reachable()
    with tempfile.TemporaryDirectory(prefix="gap-") as scratch:
        probes = start(Path(scratch), sessions)
        try:
            time.sleep(1.0)
            calm = time.time()
            time.sleep(CALM_S)
            baseline = (calm, time.time())
            ordered = [move(stage, variant, n) for n in range(moves)]
            client, server = (probes[name].results() for name in ("client", "server"))
        except BaseException:
            for probe in probes.values():
                probe.kill()
            raise
    stage.remove()
    changed = sum(len(peers) > 1 for peers in server["peers"].values())
    rows = []
    for direction, way in ways(client, server).items():
        for cold, chosen in ((True, ordered[:1]), (False, ordered[1:]))[: len(ordered)]:
            orders = [began for began, _ in chosen]
            head = {"variant": variant, "scope": "gateway", "cold": cold, "direction": direction}
            tail = {
                "duplicates": duplicates(way),
                "changed_ports": changed,
                "longest_move_s": round(max(end - begin for begin, end in chosen), 2),
            }
            rows.append(head | row(way, min(CLOSE, sessions), baseline, orders) | tail)
    return rows


def start(folder: Path, sessions: int) -> dict[str, Program]:
    """Both ends of the probe, ready."""
    probes = {}
    words = [SERVERS["4"], str(min(CLOSE, sessions)), str(sessions)]
    for role in ("server", "client"):
        result = folder / f"{role}.json"
        argv = [sys.executable, "-m", "devenv.demo.gapprobe", role, *words, str(result)]
        there = shell.in_namespace(outside.NAME, argv) if role == "server" else vm.command(ANCHOR, argv)
        probes[role] = Program(there, result, folder / f"{role}.log")
        probes[role].wait_ready()
    return probes


def move(stage: Stage, variant: str, number: int) -> tuple[float, float]:
    """One move, and its rest; returns when it was ordered, and when it had been carried out."""
    letter = "ba"[number % 2]
    began = time.time()
    if variant == "ovnmig":
        body = {"target": stage.chassis[letter], "overlap_s": 1}
        answer = rest.call("PUT", f"{rest.udn_path(SWITCH)}/gateway", body)
        path = f"/v1/migrations/{answer['id']}"
        rest.wait("the move's end", path, lambda m: m["phase"] == "completed", 60)
    else:
        order(stage, letter, 100 + number)
    ended = time.time()
    time.sleep(max(0.0, began + REST_S - ended))
    return began, ended


def order(stage: Stage, letter: str, priority: int) -> None:
    """Plain OVN's way: a gateway candidate's priority."""
    chassis = stage.chassis[letter]
    ovn.nbctl(stage.plan, "lrp-set-gateway-chassis", f"{PLAIN_ROUTER}-out", chassis, str(priority))


def play(stage: Stage, moves: int, sessions: int, say: Say) -> dict[str, Any]:
    """All variants; returns what `gap.json` says."""
    done: dict[str, Any] = {
        "resolution_ms": CLOSE_EVERY_S * 1000,
        "wide_every_ms": WIDE_EVERY_S * 1000,
        "rows": [],
    }
    for variant in VARIANTS:
        done["rows"] += measure(stage, variant, moves, sessions, say)
    print("\n" + table(done) + "\n", flush=True)
    return done


def table(done: dict[str, Any]) -> str:
    """The rows for people."""
    keys = ["moves", "sessions", "baseline_p99_ms", "gap_p50_ms", "gap_p99_ms", "gap_max_ms"]
    keys += ["packets_lost", "sessions_lost"]
    lines = [f"  {'variant':<10} {'':<5} {'way':<4}" + "".join(f"{k.removesuffix('_ms'):>15}" for k in keys)]
    for one in done["rows"]:
        head = f"  {one['variant']:<10} {'cold' if one['cold'] else 'warm':<5} {one['direction']:<4}"
        lines.append(head + "".join(f"{one[k]:>15}" for k in keys))
    return "\n".join([*lines, f"  gaps in ms, at a resolution of {done['resolution_ms']:.0f} ms"])


def verdict(done: dict[str, Any]) -> int:
    """Exit code: 1 when a move by ovnmig lost a session, else 0. How long a gap was is for the reader."""
    return int(any(one["sessions_lost"] for one in done["rows"] if one["variant"] == "ovnmig"))
