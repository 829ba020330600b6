"""One running sandbox and what tests do to it: commands on nodes, daemons stopped and continued, restarts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devenv.host.channel import Channel, Completed
from tests.sandbox.rest import Rest

REPO = Path(__file__).resolve().parents[2]
SANDBOX = REPO / "devenv" / "sandbox"
CENTRAL = "ovn-central-az1"
CHASSIS = ("ovn-chassis-1", "ovn-chassis-2", "ovn-chassis-3")
UP_TIMEOUT_S = 600
"""The images are built by the first `up` of a machine; later ones take some ten seconds."""
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
"""Which of several pytest processes this is: each has sandboxes of its own. Empty: the only one."""
PORTS = {"trixie": 8871, "bookworm": 8872}


def own(name: str, port: int) -> tuple[str, int]:
    """Name and port of a sandbox that no other pytest process of this run has."""
    return (f"{name}-{WORKER}", port + 20 * (1 + int(WORKER.removeprefix("gw")))) if WORKER else (name, port)


def sandbox(*words: str, timeout_s: float = UP_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Runs `devenv/sandbox` as a user does."""
    return subprocess.run(
        [sys.executable, str(SANDBOX), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )


def made_of(suite: str) -> tuple[str, ...]:
    """The options of a sandbox of that suite; one of them can have real VMs."""
    return ("--suite", suite, "--vm", "qemu" if suite == "trixie" else "namespace")


@dataclass
class Cluster:
    """A sandbox that is up."""

    name: str
    suite: str
    port: int
    rest: Rest = field(init=False)
    channel: Channel = field(init=False)

    def __post_init__(self) -> None:
        self.rest = Rest(self.port)
        self.channel = Channel.of(self.name)

    @classmethod
    def boot(cls, suite: str, name: str | None = None, port: int | None = None) -> Cluster:
        """A fresh sandbox of this suite."""
        own_name, own_port = own(f"tests-{suite}", PORTS[suite])
        cluster = cls(name or own_name, suite, port or own_port)
        sandbox("down", "--name", cluster.name)
        done = sandbox("up", "--name", cluster.name, "--port", str(cluster.port), *made_of(suite))
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return cluster

    def down(self) -> None:
        """Ends it."""
        done = sandbox("down", "--name", self.name, timeout_s=60)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *argv: str, node: str | None = None, timeout_s: float = 60.0) -> str:
        """Standard output of a program that must not fail."""
        return self.channel.run(argv, node=node, timeout_s=timeout_s, check=True).stdout

    def attempt(self, *argv: str, node: str | None = None, timeout_s: float = 60.0) -> Completed:
        """A program that may fail."""
        return self.channel.run(argv, node=node, timeout_s=timeout_s)

    def tool(self, module: str, *words: str, timeout_s: float = 60.0) -> str:
        """One of the sandbox's own tools in the guest, like `vm` or `cluster`."""
        return self.run("/usr/bin/python3", "-m", f"devenv.guest.{module}", *words, timeout_s=timeout_s)

    def python(self, code: str, *words: str) -> str:
        """A piece of Python in the guest, with the sandbox's modules at hand."""
        return self.run("/usr/bin/python3", "-c", code, *words)

    def nbctl(self, *words: str) -> str:
        return self.run("ovn-nbctl", "--timeout=30", *words, node=CENTRAL)

    def sbctl(self, *words: str) -> str:
        return self.run("ovn-sbctl", "--timeout=30", *words, node=CENTRAL)

    def ovnmig(self, *words: str, timeout_s: float = 60.0) -> Completed:
        """The ovnmig command in the guest."""
        return self.attempt("/opt/ovnmig/bin/python", "-m", "ovnmig", *words, timeout_s=timeout_s)

    def now(self) -> float:
        """The guest's clock, Unix seconds."""
        return float(self.run("date", "+%s.%N"))

    def zones(self, chassis: str) -> dict[str, int]:
        """Conntrack zone numbers of a chassis by user."""
        code = "import json,sys; from devenv.guest import ovn; print(json.dumps(ovn.zones(sys.argv[1])))"
        found: dict[str, int] = json.loads(self.python(code, chassis))
        return found

    def entries(self, chassis: str, zone: int) -> list[str]:
        """The conntrack entries of one zone as `conntrack -L` prints them, both families."""
        lines: list[str] = []
        for family in ("ipv4", "ipv6"):
            lines += self.run("conntrack", "-L", "-f", family, "-w", str(zone), node=chassis).splitlines()
        return lines

    def pid(self, node: str, daemon: str) -> str:
        """The process of a daemon: `ovn-controller`, `ovs-vswitchd`, or `ovnmig` (agent or controller)."""
        folder = "ovs" if daemon.startswith("ovs") else "ovn"
        return self.run("cat", f"/run/ovnmig/{node}/{folder}/{daemon}.pid").strip()

    def signal(self, node: str, daemon: str, signal: str) -> None:
        """Sends a signal to the daemon of a node."""
        self.run("kill", f"-{signal}", self.pid(node, daemon))

    @contextlib.contextmanager
    def frozen(self, node: str, daemon: str) -> Iterator[None]:
        """The daemon does nothing inside the block, and goes on afterwards if it still lives."""
        pid = self.pid(node, daemon)
        self.run("kill", "-STOP", pid)
        try:
            yield
        finally:
            self.attempt("kill", "-CONT", pid)

    def service(self, verb: str, node: str) -> None:
        """`start`, `stop` or `kill` (as kill -9) the agent of a chassis, or the central node's controller."""
        call = {
            "start": "services.start_node_service(node)",
            "stop": "services.stop_node_service(node)",
            "kill": "services.stop_node_service(node, force=True)",
        }[verb]
        find = "import sys; from devenv.guest import ovn, services; node=ovn.current_plan().node(sys.argv[1])"
        self.python(f"{find}; {call}", node)

    def ready(self, timeout_s: float = 30.0) -> None:
        """Waits for the service to be ready and for every agent to be up."""
        self.rest.wait("the service ready", "/readyz", lambda answer: bool(answer["ready"]), timeout_s)
        self.rest.wait(
            "every agent up",
            "/v1/nodes",
            lambda answer: (
                len(answer["nodes"]) == len(CHASSIS) and all(n["agent_up"] for n in answer["nodes"])
            ),
            timeout_s,
        )

    def restart_controller(self) -> None:
        """kill -9 of the controller, then a new one; returns when it is ready."""
        self.service("kill", CENTRAL)
        self.service("start", CENTRAL)
        self.rest.wait("the service ready", "/readyz", lambda answer: bool(answer["ready"]))


def eventually(what: str, holds: Callable[[], Any], timeout_s: float = 30.0, every_s: float = 0.1) -> Any:
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + timeout_s
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:g} s"
        time.sleep(every_s)
    return answer
