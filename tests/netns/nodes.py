"""Nodes for agents: a namespace and a real local database each, certificates, the agent as a process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from ovnmig import pki
from ovnmig.core.transfer import Peer, TransferOrder, TransferState, TransferStatus, ZoneKind, ZoneRef
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.pki import Identity, KeyFiles, Role
from tests.netns.spaces import inside, namespaces, run

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
CONTROLLER = "controller"
DEPLOYMENT = "house"
ROUTER = 'ovnmig-blue "ü" 1.2'
DATAPATH = "6f2b1c0e-7c1d-4b0e-9a53-2f6f3d7f9a10"
SNAT = ZoneRef(ZoneKind.SNAT, ROUTER, DATAPATH)
PORT = ZoneRef(ZoneKind.PORT, "vm 1", required=False)
SETTLE_S = 20.0

T = TypeVar("T")


class Node:
    """One node. Its agent is started and killed by the test."""

    def __init__(self, name: str, space: str, address: str, pki_dir: Path, rundir: Path) -> None:
        self.name = name
        self.space = space
        self.address = address
        self.pki_dir = pki_dir
        self.rundir = rundir
        self.agent: subprocess.Popen[bytes] | None = None
        self._database: subprocess.Popen[bytes] | None = None

    def start_database(self) -> None:
        """A database with br-int, as ovn-controller finds it."""
        self.rundir.mkdir()
        file, socket = self.rundir / "conf.db", self.rundir / "db.sock"
        run("ovsdb-tool", "create", str(file), SCHEMA)
        self._database = subprocess.Popen(
            [
                "ovsdb-server",
                str(file),
                f"--remote=punix:{socket}",
                f"--unixctl={self.rundir}/ctl",
                "-vconsole:off",
            ]
        )
        self.vsctl("init")
        self.vsctl("set", "Open_vSwitch", ".", f"external_ids:system-id={self.name}")
        self.vsctl("set", "Open_vSwitch", ".", f"external_ids:ovn-encap-ip={self.address}")
        self.vsctl("add-br", "br-int")

    def vsctl(self, *words: str) -> str:
        """ovs-vsctl on this node's database; nobody is there to carry changes out."""
        return run("ovs-vsctl", f"--db=unix:{self.rundir}/db.sock", "--no-wait", "--retry", *words)

    def set_zone(self, key: str, number: int | None) -> None:
        """What ovn-controller writes once a zone's flush is done, or None: takes it away."""
        words = [] if number is None else [str(number)]
        self.vsctl("br-set-external-id", "br-int", f"ct-zone-{key}", *words)

    def start_agent(self, *prefix: str) -> None:
        """Start the agent; its log is in the run directory."""
        settings = {"ovs_rundir": str(self.rundir), "pki_dir": str(self.pki_dir)}
        words = [sys.executable, "-m", "tests.netns.agent_program", json.dumps(settings)]
        with (self.rundir / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                ["ip", "netns", "exec", self.space, *prefix, *words], stdout=log, stderr=log
            )

    def kill_agent(self, *, hard: bool = True) -> int:
        """End the agent, without a goodbye unless told; returns its exit status."""
        assert self.agent is not None
        if hard:
            self.agent.kill()
        else:
            self.agent.terminate()
        return self.agent.wait(20)

    def log(self) -> str:
        """What the agent wrote so far."""
        return (self.rundir / "agent.log").read_text()

    def stop(self) -> None:
        """End whatever runs."""
        for process in (self.agent, self._database):
            if process is not None:
                process.kill()
                process.wait()


class Site:
    """Nodes on one wire, with a controller on it too."""

    def __init__(self, wire: str, nodes: dict[str, Node], pki_dir: Path) -> None:
        self.wire = wire
        self.nodes = nodes
        self.pki_dir = pki_dir

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def drive(self, scenario: Callable[[NodeAgents], Awaitable[T]], holder: str = CONTROLLER) -> T:
        """Run a scenario on the controller's place with the engine's own driver."""

        async def body() -> T:
            agents = NodeAgents(
                KeyFiles.of(self.pki_dir, holder), lambda name: (self[name].address, 8788), DEPLOYMENT
            )
            try:
                return await scenario(agents)
            finally:
                await agents.aclose()

        return inside(self.wire, lambda: asyncio.run(body()))

    def order(
        self,
        source: str = "a",
        target: str = "b",
        *,
        name: str = "m1",
        epoch: int = 1,
        zones: tuple[ZoneRef, ...] = (SNAT,),
    ) -> TransferOrder:
        """A transfer from one node to another."""
        peer = self[target]
        return TransferOrder(name, "blue", epoch, Peer(peer.name, peer.address, 8789), zones)


@contextmanager
def site(*names: str, agents: tuple[str, ...] | None = None) -> Iterator[Site]:
    """Nodes with agents running (or only those named); number and key of the gateway zone differ."""
    started = names if agents is None else agents
    with TemporaryDirectory(prefix="ovt") as folder, namespaces("wire", *names) as (wire, *spaces):
        pki_dir = Path(folder) / "pki"
        pki.init_ca(pki_dir)
        pki.issue(pki_dir, Identity(Role.CONTROLLER, CONTROLLER))
        run("ip", "-n", wire, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", wire, "link", "set", "br0", "up")
        run("ip", "-n", wire, "address", "add", "10.77.0.1/24", "dev", "br0")
        nodes: dict[str, Node] = {}
        try:
            for number, (name, space) in enumerate(zip(names, spaces, strict=True), 11):
                pki.issue(pki_dir, Identity(Role.CHASSIS, name))
                address = f"10.77.0.{number}"
                _plug(wire, space, f"v{number}", address)
                node = nodes[name] = Node(name, space, address, pki_dir, Path(folder) / name)
                node.start_database()
                node.set_zone(f"{ROUTER}_snat" if number % 2 else f"{DATAPATH}_snat", number * 100)
                if name in started:
                    node.start_agent()
            made = Site(wire, nodes, pki_dir)
            made.drive(lambda driver: _up(driver, *started))
            yield made
        finally:
            for node in nodes.values():
                node.stop()


def _plug(wire: str, space: str, port: str, address: str) -> None:
    run("ip", "-n", wire, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
    run("ip", "-n", wire, "link", "set", port, "master", "br0", "up")
    run("ip", "-n", space, "link", "set", "eth0", "up")
    run("ip", "-n", space, "address", "add", f"{address}/24", "dev", "eth0")


async def _up(agents: NodeAgents, *names: str) -> None:
    for name in names:
        await eventually(lambda name=name: agents.node(name))  # type: ignore[misc]


async def eventually(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], bool] = bool, within_s: float = SETTLE_S
) -> T:
    """The first answer that holds; unreachable agents are asked again. Fails after ``within_s``."""
    until = time.monotonic() + within_s
    while True:
        try:
            answer: object = await ask()
        except Exception as error:
            answer = error
        else:
            if holds(answer):  # type: ignore[arg-type]
                return answer  # type: ignore[return-value]
        assert time.monotonic() < until, f"still {answer!r}"[-900:]
        await asyncio.sleep(0.05)


async def reached(agents: NodeAgents, chassis: str, name: str, *states: TransferState) -> TransferStatus:
    """The transfer's status once it is in one of the states."""

    async def ask() -> TransferStatus:
        status = await agents.transfer(chassis, name)
        assert status is not None
        return status

    return await eventually(ask, lambda status: status.state in states)
