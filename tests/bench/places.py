"""Where the measurements happen: two network namespaces joined by a wire, filled, counted and emptied."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from ovnmig.conntrack import Applier, Batch, NetlinkSocket
from tests.bench.conntrack import ZONE_A
from tests.netns.spaces import inside, namespaces, run

SOURCE_ADDRESS, TARGET_ADDRESS = "10.78.0.1", "10.78.0.2"
_SYSCTL = Path("/proc/sys/net/netfilter")
_QUIET_S = 0.3

Result = TypeVar("Result")


class NotHere(Exception):
    """A tool cannot be had, or could not do it; the text is the reason in the table."""


class Place:
    """A namespace with a thread that lives in it, and a conntrack socket for that thread."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        self.name = name
        self._thread = inside(name, lambda: _keeper(stack))
        self.socket = stack.enter_context(self.call(NetlinkSocket))
        self.applier = Applier(self.socket)

    def call(self, action: Callable[[], Result]) -> Result:
        """The result of a call made inside the namespace."""
        return self._thread.submit(action).result()

    def count(self) -> int:
        """Entries of all zones."""
        return int(self.call((_SYSCTL / "nf_conntrack_count").read_text))

    def set_events(self, value: int) -> None:
        """nf_conntrack_events: 0 makes entries that never emit an event, as OVS hides their changes."""
        self.call(lambda: (_SYSCTL / "nf_conntrack_events").write_text(f"{value}\n"))

    def fill(self, batch: Batch, zone: int = ZONE_A) -> None:
        """Makes entries. Raises RuntimeError when the kernel does not take all of them."""
        made = self.call(lambda: self.applier.apply(batch, zone))
        if made.created != len(batch):
            raise RuntimeError(f"only {made.created} of {len(batch)} entries fit: {dict(made.refused)}")

    def empty(self) -> None:
        """Removes every entry. Only a namespace that the benchmark made itself is ever emptied."""
        run("ip", "netns", "exec", self.name, "conntrack", "-F")
        time.sleep(_QUIET_S)  # the kernel frees entries a little later


def _keeper(stack: ExitStack) -> ThreadPoolExecutor:
    """A pool whose one thread stays in the namespace of the caller: a new thread inherits it."""
    pool = stack.enter_context(ThreadPoolExecutor(1))
    pool.submit(int).result()
    return pool


@contextmanager
def places() -> Iterator[tuple[Place, Place]]:
    """Source and target, joined by a veth pair with an address each."""
    with namespaces("a", "b") as (source, target), ExitStack() as stack:
        run(
            "ip", "-n", source, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", target
        )
        for name, address in ((source, SOURCE_ADDRESS), (target, TARGET_ADDRESS)):
            run("ip", "-n", name, "link", "set", "wire", "up")
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "wire")
        made = Place(source, stack), Place(target, stack)
        made[0].set_events(0)
        # The agent sets 1; every way of inserting gets the same, for it costs some time per entry.
        made[1].set_events(1)
        yield made


@contextmanager
def room_for(entries: int) -> Iterator[None]:
    """Raises nf_conntrack_max while the block runs, then puts it back. OSError where it may not be."""
    limit = _SYSCTL / "nf_conntrack_max"
    before = limit.read_text()
    if int(before) >= entries:
        yield
        return
    limit.write_text(f"{entries}\n")
    if int(limit.read_text()) < entries:
        raise OSError(f"nf_conntrack_max stays {limit.read_text().strip()}: it belongs to the init namespace")
    try:
        yield
    finally:
        limit.write_text(before)


def peak_mib(pid: int | str = "self") -> float:
    """The most memory a process had. (ru_maxrss would count what its parent had when it forked.)"""
    found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    return round(int(found[1]) / 1024, 1) if found else 0.0


def install(command: str, package: str) -> str:
    """Makes sure of a command; returns why it is not to be had, or an empty text. Starts no service."""
    if (
        subprocess.run(["sh", "-c", f"command -v {command}"], check=False, capture_output=True).returncode
        == 0
    ):
        return ""
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    try:
        if ours:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        words = ["apt-get", "install", "-y", "-q", "--no-install-recommends", package]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
    except OSError as error:
        return f"{command} is not here and {package} cannot be installed: {error}"
    finally:
        if ours:
            policy.unlink(missing_ok=True)
    if done.returncode:
        return f"{command} is not here and {package} cannot be installed: {done.stderr.strip()[-200:]}"
    return ""
