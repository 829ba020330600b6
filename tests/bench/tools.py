"""What the engine is compared with: the C program, conntrack(8), conntrackd and pyroute2."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.conntrack import ZONE_A, ZONE_B
from tests.bench.places import SOURCE_ADDRESS, TARGET_ADDRESS, NotHere, Place, install, peak_mib
from tests.netns.spaces import run

HERE = Path(__file__).parent
WORK = HERE.parent.parent / ".cache" / "bench"
PYROUTE2 = "pyroute2==0.9.5"
_PER_SEND = 500
"""Messages per send of the C program: faster than 200, and what the engine sends."""
_LIMIT_S = 60.0

Answer = dict[str, Any]


def program(module: str, *words: str) -> Answer:
    """One of the measuring modules in a process of its own."""
    done = subprocess.run([sys.executable, "-m", module, *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{module} failed: {done.stderr.strip()[-400:]}")
    answer: Answer = json.loads(done.stdout)
    return answer


def engine(mode: str, source: Place, target: Place, entries: int) -> Answer:
    """The engine in one process."""
    return program("tests.bench.engine", mode, source.name, target.name, str(entries))


def compile_copy() -> Path:
    """The C program, compiled when its source is newer. Raises NotHere."""
    if reason := install("cc", "gcc"):
        raise NotHere(reason)
    WORK.mkdir(parents=True, exist_ok=True)
    made, source = WORK / "copy", HERE / "copy.c"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        run("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(made), str(source))
    return made


def copy(source: Place, target: Place) -> Answer:
    """Row (e)."""
    words = [source.name, str(ZONE_A), target.name, str(ZONE_B), str(_PER_SEND)]
    answer: Answer = json.loads(run(str(compile_copy()), *words))
    return answer


def conntrack(source: Place, target: Place) -> Answer:
    """Row (c): what an operator has today, through a pipe and into the same zone number."""
    if reason := install("conntrack", "conntrack"):
        raise NotHere(reason)
    command = (
        f"ip netns exec {source.name} conntrack -L -w {ZONE_A} -o save 2>/dev/null"
        f" | ip netns exec {target.name} conntrack -R - 2>/dev/null"
    )
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["sh", "-c", command], check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"entries": target.count(), "wall_s": wall, "cpu_s": cpu, "peak_mib": None}


class Daemon:
    """A conntrackd in a namespace, in FT-FW mode over the wire."""

    def __init__(self, place: Place, folder: Path, own: str, other: str) -> None:
        self._config = folder / f"{own}.conf"
        text = (HERE / "conntrackd.conf").read_text()
        for word, value in (("OWN", own), ("OTHER", other), ("FOLDER", str(folder))):
            text = text.replace(f"@{word}@", value)
        self._config.write_text(text)
        self._prefix = ["ip", "netns", "exec", place.name, "conntrackd", "-C", str(self._config)]
        self.child = subprocess.Popen(self._prefix, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tell(self, option: str) -> str:
        """A command to the running daemon; empty when it does not answer yet."""
        return subprocess.run([*self._prefix, option], check=False, capture_output=True, text=True).stdout

    def held(self, cache: str) -> int:
        """Connections in its internal or external cache."""
        found = re.search(rf"cache {cache}:\s*current active connections:\s*(\d+)", self.tell("-s"))
        return int(found[1]) if found else -1

    def wait_for(self, cache: str, entries: int) -> None:
        """Until the cache holds so many. Raises NotHere after a minute."""
        until = time.perf_counter() + _LIMIT_S
        while (held := self.held(cache)) < entries:
            if time.perf_counter() > until or self.child.poll() is not None:
                raise NotHere(f"conntrackd's {cache} cache stays at {held} of {entries}")
            time.sleep(0.02)

    def as_everybody(self) -> None:
        """Takes away the priority that the daemon gives itself: the others have to share the machine too."""
        os.sched_setscheduler(self.child.pid, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, self.child.pid, os.getpriority(os.PRIO_PROCESS, 0))

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def daemons(source: Place, target: Place, entries: int) -> Iterator[tuple[Daemon, Daemon, float]]:
    """Both ends, and when the second one began: the first already knows all entries then."""
    with TemporaryDirectory(prefix="ovb") as folder, ExitStack() as stack:

        def begin(place: Place, own: str, other: str) -> Daemon:
            daemon = Daemon(place, Path(folder), own, other)
            stack.callback(daemon.child.wait)
            stack.callback(daemon.child.kill)
            return daemon

        a = begin(source, SOURCE_ADDRESS, TARGET_ADDRESS)
        a.wait_for("internal", entries)
        start = time.perf_counter()
        b = begin(target, TARGET_ADDRESS, SOURCE_ADDRESS)
        b.wait_for("external", 0)
        for daemon in (a, b):
            daemon.as_everybody()
        yield a, b, start


def conntrackd(source: Place, target: Place, entries: int) -> tuple[Answer, Answer]:
    """Row (d): the replication of all entries into the other's external cache, then its commit."""
    if reason := install("conntrackd", "conntrackd"):
        raise NotHere(reason)
    with daemons(source, target, entries) as (a, b, start):
        before = a.cpu_s()
        a.tell("-B")
        b.wait_for("external", entries)
        replicated = {
            "entries": entries,
            "wall_s": time.perf_counter() - start,
            "cpu_s": a.cpu_s() - before + b.cpu_s(),
            "peak_mib": max(peak_mib(a.child.pid), peak_mib(b.child.pid)),
        }
        before, start = b.cpu_s(), time.perf_counter()
        b.tell("-c")
        while (there := target.count()) < entries and time.perf_counter() - start < _LIMIT_S:
            time.sleep(0.005)
        wall = time.perf_counter() - start
        committed = {
            "entries": there,
            "wall_s": wall,
            "cpu_s": b.cpu_s() - before,
            "peak_mib": peak_mib(b.child.pid),
        }
    return replicated, committed


def pyroute2_python() -> Path:
    """A Python that has pyroute2, in a virtual environment of its own. Raises NotHere."""
    venv = WORK / "pyroute2"
    python = venv / "bin" / "python"
    if not (venv / ".done").exists():
        pip = [str(python), "-m", "pip", "-q", "--disable-pip-version-check", "install", PYROUTE2]
        for words in ([sys.executable, "-m", "venv", "--clear", str(venv)], pip):
            done = subprocess.run(words, check=False, capture_output=True, text=True)
            if done.returncode:
                raise NotHere(f"{PYROUTE2} cannot be installed: {done.stderr.strip()[-200:]}")
        (venv / ".done").touch()
    return python


def pyroute2(source: Place, target: Place) -> Answer:
    """Row (f)."""
    words = [source.name, str(ZONE_A), target.name, str(ZONE_B)]
    answer: Answer = json.loads(run(str(pyroute2_python()), str(HERE / "pyroute2_copy.py"), *words))
    return answer
