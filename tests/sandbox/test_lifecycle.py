"""`devenv/sandbox` from the command line: it comes up, answers, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from devenv.host import state
from devenv.host.paths import OUT, cache_dir, run_dir
from tests.sandbox.cluster import Cluster, sandbox
from tests.sandbox.rest import Rest, Unreachable

NAME, PORT = "tests-lifecycle", 8873
NAMED = Path("/run/netns")
NAMESPACES = ("net", "mnt", "pid")


@dataclass(frozen=True)
class Machine:
    """What a sandbox could leave on this machine; test cables and named namespaces of others come and go."""

    mounts: frozenset[str]
    links: frozenset[str]

    @classmethod
    def look(cls) -> Machine:
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        links = json.loads(subprocess.check_output(["ip", "-j", "link"]))
        return cls(
            mounts=frozenset(m for m in mounts if not m.startswith(str(NAMED))),
            links=frozenset(link["ifname"] for link in links if not link["ifname"].startswith("veth")),
        )


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, queue = [], [pid]
    while queue:
        found.append(queue.pop())
        queue += children.get(found[-1], [])
    return found


def namespaces(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in NAMESPACES}


def namespaces_in_use() -> set[str]:
    """Those of running processes, and the named ones that live without a process."""
    found = {f"net:[{path.stat().st_ino}]" for path in NAMED.glob("*")}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found |= namespaces(int(folder.name))
        except OSError:
            continue
    return found


def files_outside(pids: list[int]) -> set[Path]:
    """Files under this machine's shared folders that the processes hold open, the cache and out/ aside."""
    found: set[Path] = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                path = Path(os.readlink(link))
            except OSError:
                continue
            shared = any(path.is_relative_to(p) for p in ("/tmp", "/run", "/var", "/dev/shm"))
            if shared and path.exists() and not path.is_relative_to(cache_dir()):
                found.add(path)
    return found


def test_up_answers_on_the_loopback_and_down_leaves_nothing() -> None:
    sandbox("down", "--name", NAME)
    before = Machine.look()
    up = sandbox("up", "--name", NAME, "--port", str(PORT))
    try:
        assert up.returncode == 0, up.stdout[-2000:] + up.stderr[-2000:]
        assert Rest(PORT).ok("GET", "/v1/udns") == {"udns": []}
        assert Rest(PORT).ok("GET", "/livez")["status"]
        said = json.loads(sandbox("status", "--name", NAME, "--json").stdout)
        assert said["state"] == "up"
        running = state.load(NAME)
        assert running is not None
        pids = family(running.pid)
        starts = {pid: state.process_start(pid) for pid in pids}
        files = files_outside(pids)
        theirs = set().union(*(namespaces(pid) for pid in pids)) - namespaces(os.getpid())
    finally:
        down = sandbox("down", "--name", NAME)
    assert down.returncode == 0, down.stdout + down.stderr
    assert len(pids) >= 2
    assert not [pid for pid in pids if state.process_start(pid) == starts[pid] is not None]
    assert not theirs & namespaces_in_use()
    assert not [path for path in files if path.exists()]
    assert not run_dir(NAME).exists()
    assert not (OUT / "sandbox" / NAME).exists()
    after = Machine.look()
    assert after.mounts <= before.mounts
    assert after.links <= before.links
    with pytest.raises(Unreachable):
        Rest(PORT).call("GET", "/livez")


def test_down_twice_is_harmless() -> None:
    for _ in range(2):
        done = sandbox("down", "--name", NAME)
        assert (done.returncode, "does not run" in done.stdout) == (0, True)


def test_a_second_up_of_a_running_sandbox_changes_nothing(trixie: Cluster) -> None:
    clock = trixie.channel.ping()
    words = ["--name", trixie.name, "--port", str(trixie.port), "--suite", trixie.suite]
    done = sandbox("up", *words)
    assert (done.returncode, "is up already" in done.stdout) == (0, True), done.stderr
    assert trixie.channel.ping() > clock


def test_a_taken_port_is_refused_with_a_hint(trixie: Cluster) -> None:
    done = sandbox("up", "--name", f"{NAME}-2", "--port", str(trixie.port))
    assert done.returncode == 1
    assert f"port {trixie.port} of 127.0.0.1 is taken" in done.stderr
    assert "--port" in done.stderr
    assert not run_dir(f"{NAME}-2").exists()


def test_exec_ends_with_the_code_of_its_program(trixie: Cluster) -> None:
    words = ["exec", "--name", trixie.name, "ovn-chassis-1", "--"]
    assert sandbox(*words, "sh", "-c", "exit 7").returncode == 7
    assert "br-int" in sandbox(*words, "ovs-vsctl", "show").stdout
    unknown = sandbox("exec", "--name", trixie.name, "ovn-chassis-99", "--", "true")
    assert unknown.returncode != 0
    assert "ovn-chassis-99" in unknown.stderr
