"""Running programs, on a node or beside it. A failure carries the command and what it printed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from devenv.guest.paths import read_node_env

NETNS_DIR = Path("/run/netns")
DEFAULT_TIMEOUT_S = 60.0

T = TypeVar("T")


class CommandError(RuntimeError):
    """A program failed or did not end in time."""


class ClusterError(RuntimeError):
    """The cluster is not as it must be; the text says what is wrong and, where known, what to do."""


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> str:
    """Runs a program to its end and returns what it printed. Raises CommandError."""
    try:
        done = subprocess.run(
            list(argv),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**os.environ, **(env or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{' '.join(argv)}: not done after {timeout_s:g} s") from error
    except FileNotFoundError as error:
        raise CommandError(f"{argv[0]}: no such program") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise CommandError(f"{' '.join(argv)}: exit code {done.returncode}: {said}")
    return done.stdout


def in_namespace(name: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in a network namespace.

    nsenter and not `ip netns exec`: the latter mounts sysfs anew at each call, which is slow in the guest.
    """
    return ["nsenter", f"--net={NETNS_DIR / name}", "--", *argv]


def on_node(node_name: str, argv: Sequence[str], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
    """Runs a program in a node's namespace with the node's environment."""
    return run(in_namespace(node_name, argv), env=read_node_env(node_name), timeout_s=timeout_s)


def in_parallel(work: Callable[[T], object], items: Sequence[T]) -> None:
    """Calls `work` for every item at once; the first failure is raised after all have ended."""
    if not items:
        return
    with ThreadPoolExecutor(max_workers=len(items)) as pool:
        futures = [pool.submit(work, item) for item in items]
    for future in futures:
        future.result()


def wait_until(what: str, ready: Callable[[], bool], *, timeout_s: float, interval_s: float = 0.1) -> None:
    """Asks until `ready` says yes. Raises ClusterError that names what was waited for."""
    deadline_s = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline_s:
            raise ClusterError(f"{what}: not after {timeout_s:g} s")
        time.sleep(interval_s)
