"""Network namespaces for tests: made, entered and removed; needs root and ip(8), nft(8)."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

_NUMBERS = itertools.count()
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def namespaces(*labels: str) -> Iterator[list[str]]:
    """Fresh namespaces with loopback up; removed at the end whatever happens."""
    names = [f"ovt-{os.getpid()}-{next(_NUMBERS)}-{label}" for label in labels]
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def run(*command: str, text: str | None = None) -> str:
    """Runs a command, returns what it printed; a failure shows what it complained about."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def within(name: str, *command: str, text: str | None = None) -> str:
    """Runs a command in a namespace."""
    return run("ip", "netns", "exec", name, *command, text=text)


def inside(name: str, action: Callable[[], Result]) -> Result:
    """Calls ``action`` in a namespace, in a thread of its own; sockets it makes stay there."""

    def enter() -> Result:
        handle = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            if _LIBC.setns(handle, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {name}")
        finally:
            os.close(handle)
        return action()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(enter).result()


def sysctl(name: str, key: str, value: int) -> None:
    """Writes a switch of net.netfilter in a namespace."""
    within(name, "sysctl", "-qw", f"net.netfilter.{key}={value}")
