"""Logs of the nodes and of the sandbox itself: shown, or saved when something failed."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

from devenv.host import state
from devenv.host.channel import Channel
from devenv.host.errors import EXIT_NOT_RUNNING, SandboxError
from devenv.host.paths import OUT, run_dir

# Daemons log where the node's environment file says; other things of a node go to /var/log/ovnmig.
NODE_LOGS = 'tail -v -n "$1" $(ls "$OVS_LOGDIR"/*.log /var/log/ovnmig/"$OVNMIG_NODE"/*.log 2>/dev/null)'
GUEST_LOGS = 'for f in $(ls /var/log/ovnmig/*.log /run/ovnmig/*.log 2>/dev/null); do tail -v -n "$1" $f; done'
ALL_LOGS = "tar -cf - $(ls -d /var/log/ovnmig /run/ovnmig/*.log /run/ovnmig/*/log 2>/dev/null)"
HOST_FILES = ("console.log", "keeper.log", "ended")


def show_logs(name: str, node: str | None, lines: int, write: Callable[[bytes], object]) -> int:
    """Shows the last lines of each log; a crashed sandbox still has its console."""
    folder = run_dir(name)
    if not folder.exists():
        hint = f"logs of failed runs are in {OUT / 'sandbox'}"
        raise SandboxError(f"'{name}' does not run", hint=hint, code=EXIT_NOT_RUNNING)
    if node is None:
        for file in HOST_FILES:
            with contextlib.suppress(OSError):
                text = (folder / file).read_text(errors="replace").splitlines()[-lines:]
                write(("\n".join([f"==> {file} <==", *text, ""]) + "\n").encode())
        current = state.load(name)
        if not (current and current.alive()):
            return 0
    script = GUEST_LOGS if node is None else NODE_LOGS
    command = ["sh", "-c", script, "sh", str(lines)]
    return Channel.of(name).stream(command, write, write, node=node, timeout_s=60)


def save_logs(name: str) -> Path:
    """Copies all logs to out/sandbox/NAME and returns that folder; what cannot be had is left out."""
    target = OUT / "sandbox" / name
    target.mkdir(parents=True, exist_ok=True)
    for file in HOST_FILES:
        with contextlib.suppress(OSError):
            (target / file).write_bytes((run_dir(name) / file).read_bytes())
    packed = bytearray()
    with contextlib.suppress(SandboxError, tarfile.TarError):
        Channel.of(name).stream(["sh", "-c", ALL_LOGS], packed.extend, lambda _: None, timeout_s=30)
        with tarfile.open(fileobj=io.BytesIO(bytes(packed))) as archive:
            archive.extractall(target, filter="data")
    return target
