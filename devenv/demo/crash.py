"""The scene of the crash: the gateway's node loses power while VMs elsewhere have sessions through it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from devenv.demo import report, rest
from devenv.demo.judge import Move, Record, describe, wire_counts
from devenv.demo.plan import AFTER_MOVE_S, BASELINE_S, Session
from devenv.demo.stage import SUBNETS, SWITCH, Stage
from devenv.demo.traffic import Traffic
from devenv.guest import ovn, power
from devenv.guest.shell import ClusterError

CLAIM_TIMEOUT_S = 30
ABOUT_S = 1.0
"""Cutting a node's cables takes some tenths of a second; the silence begins then."""
RUNS = {
    "replication": "the gateway's node loses power; its standby holds every session",
    "no-replication": "control: the same without replication",
}

Say = Callable[[str], None]


def expectation(run: str, session: Session, translated: bool) -> str:
    """What must become of a session. Without its entry a translated flow gets another port, and a server's
    push finds nobody to translate it back; any other flow may be picked up in the middle."""
    if run == "replication":
        return "survive"
    return "die" if translated or session.kind == "push" else "either"


class Claim:
    """Watches the Southbound database for the standby's claim, from before the crash on."""

    def __init__(self, stage: Stage, chassis: str) -> None:
        self.at = 0.0
        rows = ovn.sbctl(stage.plan, "--bare", "--columns=_uuid", "find", "Chassis", f"name={chassis}")
        port = rest.call("GET", rest.udn_path(SWITCH))["router"] + "-ext"
        find = ("--bare", "--columns=_uuid", "find", "Port_Binding", f'logical_port="cr-{port}"')
        binding = ovn.sbctl(stage.plan, *find).strip()
        if not binding:
            raise ClusterError(f"no port cr-{port} in the Southbound database")
        words = ("--timeout", str(CLAIM_TIMEOUT_S), "wait-until", "Port_Binding", binding)
        self._thread = threading.Thread(target=self._wait, args=(stage, (*words, f"chassis={rows.strip()}")))
        self._thread.start()

    def _wait(self, stage: Stage, words: Sequence[str]) -> None:
        ovn.sbctl(stage.plan, *words)
        self.at = time.time()

    def seen(self) -> float:
        """When it was (Unix seconds). Raises ClusterError when it never was."""
        self._thread.join()
        if not self.at:
            raise ClusterError(f"no standby claimed the gateway within {CLAIM_TIMEOUT_S} s")
        return self.at


def resumed(records: Sequence[Record], crash: float) -> dict[str, float]:
    """When packets came through again, out to the server and in to a VM: the end of the longest silence that
    began about the crash. Raises ClusterError when none came."""
    found = {}
    for name in ("out", "in"):
        times = sorted(t for r in records for t in (r.to_server if name == "out" else r.to_vm))
        silences = [(b - a, b) for a, b in pairwise(times) if crash - ABOUT_S < a < crash + ABOUT_S]
        if not silences:
            raise ClusterError(f"nothing came {name} any more after the crash")
        found[name] = max(silences)[1]
    return found


def fast_detection(stage: Stage) -> None:
    """The operator's part: BFD between gateway candidates notices a dead node after 3 x 200 ms."""
    rest.call("PUT", "/v1/bfd", {"profile": "fast"})
    ovn.sync(stage.plan)


def play(stage: Stage, run: str, folder: Path, say: Say) -> dict[str, Any]:
    """One run; returns its entry of the report. The node is up again at the end."""
    say(f"run {run}: {RUNS[run]}")
    fast_detection(stage)
    owner, heir = stage.chassis["a"], stage.chassis["b"]
    stage.create_gateway(follow=False, replication="continuous" if run == "replication" else "none")
    stage.wait_reachable()
    traffic = Traffic(folder)
    try:
        traffic.start()
        say(f"sessions are open; {BASELINE_S:.0f} s of baseline")
        time.sleep(BASELINE_S)
        if run == "replication":
            rest.wait("the copy in step", rest.udn_path(SWITCH), in_step, 10)
        claim = Claim(stage, heir)
        time.sleep(1)
        crash = time.time()
        power.crash(stage.plan, owner)
        moves = [Move(crash, claim.seen())]
        say(f"{owner} is dead, {heir} owns the gateway after {(claim.at - crash) * 1000:.0f} ms")
        time.sleep(AFTER_MOVE_S)
        began = time.time()
        if run == "replication":
            power.restart(stage.plan, owner)
            rest.wait("the copy back in step", rest.udn_path(SWITCH), in_step, 60)
            moves.append(Move(began, time.time()))
            say(f"{owner} is back, a standby now, its copy in step")
            time.sleep(AFTER_MOVE_S)
        records = traffic.finish()
    except BaseException:
        traffic.abandon()
        raise
    if run != "replication":
        power.restart(stage.plan, owner)
    wire = wire_counts(records, *traffic.packets(), SUBNETS)
    told = [describe(r, expectation(run, r.session, r.translated), moves) for r in records]
    back = resumed(records, crash)
    entry = {
        "name": run,
        "says": RUNS[run],
        "sessions": told,
        "survived": sum(bool(s["survived"]) for s in told),
        "total": len(told),
        "nb_transactions": [],
        "rst_seen": wire.rst,
        "icmp_unreachable_seen": wire.unreachable,
        "private_source_seen": wire.private_source,
        "entries": dict.fromkeys(report.COUNTS, 0),
        "move_s": [round(m.ended - m.began, 2) for m in moves],
        "detection_ms": round((claim.at - crash) * 1000),
        "takeover_ms": {name: round((at - claim.at) * 1000) for name, at in back.items()},
        "owner": rest.call("GET", rest.udn_path(SWITCH))["owner"],
        "owner_expected": heir if run == "replication" else "",
    }
    stage.delete_gateway()
    print("\n" + report.table(entry) + "\n", flush=True)
    return entry


def in_step(udn: Any) -> bool:
    """Every standby of the UDN holds what its owner holds."""
    return bool(udn["standbys"]) and all(one["state"] == "in-step" for one in udn["standbys"])
