"""One leg of a run: all VMs move to another chassis, and the gateway as the run's way has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from devenv.demo import rest
from devenv.demo.judge import Move
from devenv.demo.plan import Run
from devenv.demo.stage import ANCHOR, SWITCH, VMS, Stage
from devenv.guest import vm
from devenv.guest.vmrecord import load

READY_TIMEOUT_S = 90.0
SWITCH_TIMEOUT_S = 30.0
OVERLAP_S = 5.0
BROKEN = ("rolling-back", "rolled-back", "failed")

Say = Callable[[str], None]


def migrate(stage: Stage, run: Run, name: str, target: str, say: Say) -> str:
    """Migrate one VM through ovnmig; returns the migration's path once it switched (the overlap runs on).

    The anchor takes the gateway along (unless pinned).
    """
    body = {
        "udn": SWITCH,
        "port": name,
        "target": target,
        "binding": "ovnmig",
        "trigger": "auto",
        "transfer": "none" if run.way == "none" else "full",
        "overlap_s": OVERLAP_S if name == ANCHOR else 0,
        "gateway": name == ANCHOR and run.way != "pinned",
    }
    path = f"/v1/migrations/{rest.call('POST', '/v1/migrations', body)['id']}"

    def reached(phases: tuple[str, ...]) -> Callable[[Any], bool]:
        def check(answer: Any) -> bool:
            if answer["phase"] in BROKEN:
                raise rest.RestError(f"migration of {name} to {target} {answer['phase']}: {answer['reason']}")
            return answer["phase"] in phases

        return check

    vm.plug(stage.plan, name, target)
    rest.wait(
        f"{name} ready", path, reached(("ready", "switching", "converging", "completed")), READY_TIMEOUT_S
    )
    vm.wait_bound(stage.plan, name, target)
    vm.move(stage.plan, name, load(name).on, target, binding="managed")
    rest.wait(f"{name} switched", path, reached(("converging", "completed")), SWITCH_TIMEOUT_S)
    if name != ANCHOR:
        rest.wait(f"{name} completed", path, reached(("completed",)), SWITCH_TIMEOUT_S)
    say(f"{name} is on {target}")
    return path


def leg(stage: Stage, run: Run, letter: str, say: Say) -> tuple[Move, list[str]]:
    """Move everything to that chassis; returns when it was, and the paths of ovnmig's migrations.

    The anchor goes last, so that the other VMs reach their gateway through the tunnel for a while.
    """
    target = stage.chassis[letter]
    began = time.time()
    paths: list[str] = []
    for name in (*(n for n in VMS if n != ANCHOR), ANCHOR):
        if run.way == "node-address":
            vm.move(stage.plan, name, load(name).on, target, binding="requested")
            vm.wait_bound(stage.plan, name, target)
        else:
            paths.append(migrate(stage, run, name, target, say))
    if run.way == "node-address":
        stage.move_plain_router(letter)
        say(f"the plain router is on {target} with that node's address")
    return Move(began, time.time()), paths
