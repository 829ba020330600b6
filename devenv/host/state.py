"""What is known of a running sandbox: one JSON file in its run folder, removed by `down`."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from devenv.host.paths import run_dir, runs_dir

STATE_NAME = "state.json"


@dataclass(frozen=True)
class State:
    """A sandbox that was started. `pid` and `pid_start` together name its first process for good."""

    name: str
    backend: str
    suite: str
    ovn: str
    kernel: str
    chassis: int
    gateways: int
    port: int
    memory_mb: int
    pid: int
    pid_start: int
    ready: bool = False
    vm: str = "namespace"

    def save(self) -> None:
        """Writes the state so that a reader sees the old or the new one, never half of one."""
        folder = run_dir(self.name)
        draft = folder / (STATE_NAME + ".new")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n")
        draft.rename(folder / STATE_NAME)

    def made_ready(self) -> State:
        """Returns the state with the cluster inside being up."""
        return replace(self, ready=True)

    def alive(self) -> bool:
        """Tells whether the first process still runs (a number given to another process does not count)."""
        return process_start(self.pid) == self.pid_start


def load(name: str) -> State | None:
    """Returns the state of a sandbox; None when there is none or it was never completed."""
    try:
        document = json.loads((run_dir(name) / STATE_NAME).read_text())
        return State(**document)
    except (OSError, ValueError, TypeError):
        return None


def names() -> list[str]:
    """Returns the names of all sandboxes that have a run folder."""
    with contextlib.suppress(OSError):
        return sorted(entry.name for entry in runs_dir().iterdir() if entry.is_dir())
    return []


def process_start(pid: int) -> int | None:
    """Returns when a process was started (clock ticks since boot); None when it does not run (any more)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])
