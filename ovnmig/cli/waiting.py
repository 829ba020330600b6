"""Waiting for a migration: follow its phases, survive a restart of the service."""

from __future__ import annotations

import time
from enum import StrEnum

from rich.status import Status

from ovnmig.cli.client import Api, Document, segment
from ovnmig.cli.exits import ApiProblem, CliError, Exit, Unreachable
from ovnmig.cli.output import console, say

POLL_S = 0.25
ENDED = ("completed", "rolled-back", "failed")
_ORDER = ("requested", "preparing", "copying", "ready", "switching", "converging", "completed")


class Until(StrEnum):
    """How far to wait. ``converging``: the target has taken over."""

    READY = "ready"
    CONVERGING = "converging"
    COMPLETED = "completed"


def reached(phase: str, until: Until) -> bool:
    """Whether a migration in ``phase`` is as far as ``until``."""
    return phase in _ORDER and _ORDER.index(phase) >= _ORDER.index(until.value)


def wait(service: Api, migration_id: str, *, until: Until, timeout_s: float) -> Document:
    """Print each phase as it comes and return the migration once it is there.

    Raises CliError when it ends otherwise, or after ``timeout_s`` (it goes on then). A service that restarts
    meanwhile is waited for.
    """
    path = f"/v1/migrations/{segment(migration_id)}"
    deadline = time.monotonic() + timeout_s
    out = console(stderr=True)
    status = Status(f"migration {migration_id}", console=out)
    shown = ""
    lost = False
    if out.is_terminal:
        status.start()
    try:
        while True:
            try:
                now = service.get(path)
            except (Unreachable, ApiProblem) as error:
                if error.code is not Exit.UNREACHABLE or time.monotonic() > deadline:
                    raise
                if not lost:
                    say(f"the service does not answer, trying on: {error.message}")
                lost = True
                time.sleep(4 * POLL_S)
                continue
            if lost:
                say("the service answers again")
            lost = False
            phase = str(now["phase"])
            if phase != shown:
                say(_line(now))
                shown = phase
            if reached(phase, until):
                return now
            if phase in ENDED:
                raise CliError(f"migration {migration_id} is {phase}: {now['reason'] or 'no reason given'}")
            if time.monotonic() > deadline:
                words = f"migration {migration_id} is still {phase} after {timeout_s:g} s"
                waits = f"it waits for: {now['waits_for']}" if now["waits_for"] else "it goes on"
                raise CliError(words, code=Exit.TIMEOUT, details=(waits,))
            status.update(_waiting(now))
            time.sleep(POLL_S)
    finally:
        status.stop()


def _line(now: Document) -> str:
    counts = now["counts"]
    words = str(now["phase"])
    if counts["read"]:
        words += f"  entries: {summary(counts)}"
    if now["reason"]:
        words += f"  ({now['reason']})"
    elif now["waits_for"]:
        words += f"  waits for {now['waits_for']}"
    return words


def _waiting(now: Document) -> str:
    return f"{now['phase']}: {now['waits_for'] or 'working'}"


def summary(counts: Document) -> str:
    """Entry counts on one line."""
    names = ("read", "created", "identical", "replaced", "refused", "lost")
    return ", ".join(f"{counts[name]} {name}" for name in names)
