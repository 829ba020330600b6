"""The soak: a VM and its gateway go round under traffic while things break; no session may be lost."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devenv.demo import soakcount, soakfaults
from devenv.demo.soakload import LOST_S
from devenv.demo.soakmove import Mover
from devenv.demo.soakplan import FAULTS, steps
from devenv.demo.soakserver import CALM_S
from devenv.demo.stage import SERVERS, VMS, Stage
from devenv.demo.traffic import Program
from devenv.guest import outside, ovn, shell, vm

NEW_PER_S = 50
PROBES = {VMS[0]: 2, VMS[1]: 0, VMS[2]: 2}
"""Probing sessions of a VM, one of each family: of the VM that moves, and of one that stays."""
PLACES = dict(zip(VMS, "abc", strict=True))
BASELINE_S = 12.0
SETTLE_S = 3.0

Say = Callable[[str], None]


def play(stage: Stage, moves: int, sessions: int, say: Say) -> dict[str, Any]:
    """The whole soak; returns what `soak.json` says."""
    began = time.monotonic()
    stage.remove()
    stage.build_vms(places=PLACES)
    before = soakfaults.database(stage)
    zones = {chassis: set(ovn.zones(chassis)) for chassis in stage.chassis.values()}
    stage.create_gateway(follow=True)
    stage.wait_reachable()
    mover = Mover(stage, say)
    mover.wait_for_bfd()
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        load = Load(Path(scratch), sessions)
        try:
            time.sleep(CALM_S)
            say(f"sessions are open; {BASELINE_S:.0f} s of baseline")
            calm = (time.time(), time.time() + BASELINE_S)
            time.sleep(BASELINE_S)
            for step in steps(moves):
                mover.play(step)
                if (step.number + 1) % 10 == 0:
                    say(f"{step.number + 1} of {moves} moves")
            time.sleep(SETTLE_S)
            noted = load.finish()
            say("the control: one more move, without its entries")
            load = Load(Path(scratch) / "control", sessions)
            time.sleep(CALM_S * 2)
            mover.play_control(moves)
            time.sleep(SETTLE_S)
            control = load.finish()
        except BaseException:
            load.abandon()
            raise
    stage.delete_gateway()
    left = soakfaults.wait_for_none(stage, before, zones)
    stage.remove()
    counts = soakcount.sessions(noted, mover.unprotected)
    done = {
        "moves": moves,
        "faults": dict(Counter(step.fault for step in steps(moves))),
        "sessions": sessions,
        "new_per_s": NEW_PER_S,
        **counts,
        "leftovers": len(left),
        "leftover_list": left,
        "rolled_back": mover.rolled_back,
        "drift_seen": mover.drift_seen,
        "flips_s": mover.flips_s,
        "steps": mover.log,
        "gap": soakcount.gaps(noted, mover.windows, calm),
        "control": {key: value for key, value in soakcount.sessions(control).items() if "list" not in key},
        "duration_s": round(time.monotonic() - began),
    }
    print("\n" + soakcount.table(done) + "\n", flush=True)
    return done


class Load:
    """The traffic programs: a server outside, a client in each VM."""

    def __init__(self, folder: Path, sessions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.programs: dict[str, Program] = {}
        argv = [sys.executable, "-m", "devenv.demo.soakload"]
        result = folder / "server.json"
        self._start("server", shell.in_namespace(outside.NAME, [*argv, "server", str(result)]), result)
        for number, name in enumerate(VMS):
            asked = {
                "vm": name,
                "servers": SERVERS,
                "sessions": (sessions + number) // len(VMS),
                "new_per_s": NEW_PER_S / len(VMS),
                "probes": PROBES[name],
                "seed": number,
            }
            order = folder / f"{name}.order.json"
            order.write_text(json.dumps(asked))
            result = folder / f"{name}.json"
            self._start(name, vm.command(name, [*argv, "client", str(order), str(result)]), result)

    def _start(self, name: str, argv: list[str], result: Path) -> None:
        self.programs[name] = Program(argv, result, result.with_suffix(".log"))
        self.programs[name].wait_ready()

    def finish(self) -> dict[str, Any]:
        """Brings every session to its planned end; what each VM noted."""
        for name in VMS:
            self.programs[name].tell("stop")
        noted = {name: self.programs[name].results(timeout_s=2 * LOST_S) for name in VMS}
        self.programs["server"].results()
        return noted

    def abandon(self) -> None:
        """End everything that still runs."""
        for program in self.programs.values():
            program.kill()


def verdict(done: dict[str, Any]) -> list[str]:
    """What did not go as it must, in words; empty when all did."""
    found = [f"{one['vm']} {one['kind']} v{one['family']}: {one['why']}" for one in done["lost_list"][:20]]
    if done["lost"] > 20:
        found.append(f"and {done['lost'] - 20} more sessions lost")
    found += done["leftover_list"]
    if not done["control"]["lost"]:
        found.append("the control lost no session: this soak proves nothing")
    if done["moves"] >= len(FAULTS) and not done["drift_seen"]:
        found.append("foreign flips were not reported as drift")
    return found
