"""Play the demo on the running cluster: `python -m devenv.demo --out DIR [--scene crash] [--runs A,B]`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from devenv.demo import crash, gap, picture, report, rest, soak
from devenv.demo.judge import Move, describe, wire_counts
from devenv.demo.moves import leg
from devenv.demo.plan import AFTER_MOVE_S, BASELINE_S, RUNS, Run, expectation
from devenv.demo.stage import SUBNETS, VMS, Stage
from devenv.demo.traffic import Traffic
from devenv.guest import qemurecord
from devenv.guest.plan import PlanError
from devenv.guest.shell import ClusterError, CommandError, on_node

BEGAN = time.monotonic()


def say(text: str) -> None:
    """A line of progress with the time since the start."""
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {text}", flush=True)


def play(stage: Stage, run: Run, folder: Path) -> dict[str, Any]:
    """One run from its gateway's creation to its deletion; returns its entry of the report."""
    say(f"run {run.name}: {run.says}")
    by_hand = run.way == "node-address"
    if by_hand:
        stage.create_plain_router()
    else:
        stage.create_gateway(follow=run.way != "pinned")
    stage.wait_reachable()
    traffic = Traffic(folder)
    moves: list[Move] = []
    migrations: list[list[dict[str, Any]]] = []
    try:
        traffic.start()
        say(f"sessions are open; {BASELINE_S:.0f} s of baseline")
        time.sleep(BASELINE_S)
        for letter in run.legs:
            move, paths = leg(stage, run, letter, say)
            moves.append(move)
            time.sleep(AFTER_MOVE_S)
            migrations.append([completed(path) for path in paths])
        records = traffic.finish()
    except BaseException:
        traffic.abandon()
        raise
    wire = wire_counts(records, *traffic.packets(), SUBNETS)
    told = [describe(r, expectation(run, r.session, r.translated), moves) for r in records]
    pauses = guest_pauses_ms()
    if by_hand:
        stage.delete_plain_router()
    else:
        stage.delete_gateway()
    entry = {
        "name": run.name,
        "says": run.says,
        "sessions": told,
        "survived": sum(bool(s["survived"]) for s in told),
        "total": len(told),
        "nb_transactions": [max(m["nb_transactions"] for m in ms) for ms in migrations if ms],
        "rst_seen": wire.rst,
        "icmp_unreachable_seen": wire.unreachable,
        "private_source_seen": wire.private_source,
        "entries": {k: sum(m["counts"][k] for ms in migrations for m in ms) for k in report.COUNTS},
        "move_s": [round(m.ended - m.began, 2) for m in moves],
        "timeline": picture.timeline(records, told, moves),
    }
    if pauses:
        entry["guest_pause_ms"] = pauses
    print("\n" + report.table(entry) + "\n", flush=True)
    return entry


def guest_pauses_ms() -> dict[str, list[int]]:
    """By real VM, how long each of its moves kept it standing, as QEMU tells. Empty for stand-ins."""
    return {name: [m.guest_pause_ms for m in done] for name in VMS if (done := qemurecord.moves(name))}


def completed(path: str) -> Any:
    """The migration's last word. Raises RestError if it is not completed by now."""
    return rest.wait("the end of the overlap", path, lambda m: m["phase"] == "completed", 30)


def versions(stage: Stage, vm: str) -> dict[str, str]:
    """What the report says it ran on."""
    node = stage.chassis["a"]
    ovn_version = on_node(node, ["ovn-controller", "--version"]).split()[1]
    datapath = on_node(node, ["ovs-vsctl", "get", "Bridge", "br-int", "datapath_type"]).strip().strip('"')
    return {
        "suite": os.environ.get("SUITE", "trixie"),
        "ovn": ovn_version,
        "kernel": platform.release(),
        "datapath": datapath or "system",
        "vm": vm,
    }


def main() -> int:
    """Exit codes: 0 everything went as expected, 1 something did not, 2 the demo could not be played."""
    parser = argparse.ArgumentParser(prog="devenv.demo", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of report.json; gap.json and soak.json go beside it"
    )
    parser.add_argument(
        "--scene", default="moves", choices=("moves", "crash", "gap", "soak"), help="what is played"
    )
    parser.add_argument("--vm", default="namespace", choices=("namespace", "qemu"), help="what the VMs are")
    parser.add_argument("--runs", default="", help="which runs, by name; all by default")
    parser.add_argument(
        "--moves", type=int, default=6, help="how many moves the gap is measured in, or a soak makes"
    )
    parser.add_argument(
        "--sessions",
        type=int,
        default=100,
        help="in how many sessions the gap is measured, or how many a soak keeps open",
    )
    args = parser.parse_args()
    if min(args.moves, args.sessions) < 1:
        parser.error("at least one move and one session are needed")
    if args.scene != "moves" and args.vm != "namespace":
        parser.error("only the moves are played with real VMs")
    known = list(crash.RUNS) if args.scene == "crash" else [r.name for r in RUNS]
    wanted = args.runs.split(",") if args.runs else known
    if unknown := set(wanted) - set(known):
        parser.error(f"no run named {', '.join(sorted(unknown))}")
    try:
        stage = Stage.of_the_running_cluster()
        if args.scene == "gap":
            told = versions(stage, args.vm) | gap.play(stage, args.moves, args.sessions, say)
            report.write(told, args.out.parent, "gap")
            return gap.verdict(told)
        if args.scene == "soak":
            told = versions(stage, args.vm) | soak.play(stage, args.moves, args.sessions, say)
            report.write(told, args.out.parent, "soak")
            return done_well(soak.verdict(told))
        with tempfile.TemporaryDirectory(prefix="demo-") as scratch:
            done: dict[str, Any] = {**versions(stage, args.vm), "runs": []}
            for name in (name for name in known if name in wanted):
                stage.remove()
                folder = Path(scratch) / name
                if args.scene == "crash":
                    stage.build_vms("c")
                    done["runs"].append(crash.play(stage, name, folder, say))
                    report.write(done, args.out, "crash")
                    continue
                stage.build_vms(kind=args.vm)
                done["runs"].append(play(stage, next(r for r in RUNS if r.name == name), folder))
                report.write(done, args.out)
                picture.write(done, args.out)
        stage.remove()
    except (ClusterError, CommandError, PlanError, rest.RestError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    problems = [f"{run['name']}: {text}" for run in done["runs"] for text in report.run_problems(run)]
    return done_well(problems)


def done_well(problems: list[str]) -> int:
    """The last word: exit code 0 without a problem, else 1 after a line for each."""
    for text in problems:
        print(f"! {text}")
    say(
        "every session went as expected" if not problems else f"{len(problems)} things did not go as expected"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
