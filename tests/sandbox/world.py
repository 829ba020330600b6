"""A UDN with its VMs, made for one test and removed after it; whatever is left behind fails the test."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.sandbox import database
from tests.sandbox.cluster import CHASSIS, Cluster, eventually
from tests.sandbox.rest import udn_path

SERVERS = {4: "172.16.1.50", 6: "fd00:172:16:1::50"}
A, B, C = CHASSIS


@dataclass
class World:
    """One logical switch with VMs and, once created, ovnmig's gateway.

    ``number`` sets the addresses apart: subnets 10.N.0.0/24 and fd00:N::/64, VIPs 172.16.1.N and the like.
    """

    cluster: Cluster
    name: str
    number: int
    families: tuple[int, ...] = (4, 6)
    inner: int = 0
    """The second number of the subnets, ``number`` by default; two worlds with the same one overlap."""
    vms: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inner = self.inner or self.number
        self.before = database.dump(self.cluster)

    @property
    def path(self) -> str:
        return udn_path(self.name)

    @property
    def subnets(self) -> list[str]:
        both = {4: f"10.{self.inner}.0.0/24", 6: f"fd00:{self.inner:x}::/64"}
        return [both[f] for f in self.families]

    @property
    def vips(self) -> list[str]:
        both = {4: f"172.16.1.{self.number}/24", 6: f"fd00:172:16:1::{self.number:x}/64"}
        return [both[f] for f in self.families]

    @property
    def gateways(self) -> list[str]:
        both = {4: f"10.{self.inner}.0.1", 6: f"fd00:{self.inner:x}::1"}
        return [both[f] for f in self.families]

    @property
    def nexthops(self) -> list[str]:
        both = {4: "172.16.1.1", 6: "fd00:172:16:1::1"}
        return [both[f] for f in self.families]

    def body(self, **changes: object) -> dict[str, object]:
        """The request that creates the UDN."""
        return {
            "name": self.name,
            "switch": self.name,
            "subnets": self.subnets,
            "vips": self.vips,
            "nexthops": self.nexthops,
            "physical_network": "public",
            "chassis": list(CHASSIS),
        } | changes

    def create(self, **changes: object) -> Any:
        """Creates the gateway; returns the UDN as answered."""
        return self.cluster.rest.ok("POST", "/v1/udns", self.body(**changes))

    def add_switch(self) -> None:
        self.cluster.nbctl("ls-add", self.name)

    def add_vm(self, vm: str, on: str = A, host: int = 0, kind: str = "namespace") -> None:
        """A VM with an address per family; ``host`` is the last number; ``kind`` `qemu` makes a real one."""
        host = host or 11 + len(self.vms)
        words: list[str] = []
        for family, gateway in zip(self.families, self.gateways, strict=True):
            address = f"10.{self.inner}.0.{host}/24" if family == 4 else f"fd00:{self.inner:x}::{host:x}/64"
            words += ["--address", address, "--gateway", gateway]
        self.vms.append(vm)
        self.cluster.tool("vm", "add", vm, *words, "--switch", self.name, "--on", on, "--kind", kind)
        self.cluster.nbctl("wait-until", "Logical_Switch_Port", vm, "up=true")

    def udn(self) -> Any:
        return self.cluster.rest.ok("GET", self.path)

    def owner(self) -> str:
        """The chassis that has the gateway port, by its VIP's router port in the Southbound database."""
        return str(self.udn()["owner"])

    def wait_owner(self, chassis: str, timeout_s: float = 30.0) -> None:
        self.cluster.rest.wait(
            f"gateway on {chassis}", self.path, lambda u: bool(u["owner"] == chassis), timeout_s
        )

    def settle(self, owner: str = A) -> None:
        """Until the gateway is owned where the VMs are and BFD is up between its candidates.

        The latter takes a second or two after a UDN is made; a move would wait for it.
        """
        self.wait_owner(owner)
        standby = [m["chassis"] for m in self.udn()["members"] if m["chassis"] != owner]
        for target in standby:
            request = {"udn": self.name, "target": target, "gateway": True}
            self.cluster.rest.eventually_possible(request)

    def wait_reachable(self, timeout_s: float = 30.0) -> None:
        """Until each VM reaches the outside server in each family."""
        for vm in self.vms:
            for family in self.families:
                reaches = partial(self.ping, vm, SERVERS[family])
                eventually(f"{vm} reaches the outside over IPv{family}", reaches, timeout_s)

    def ping(self, vm: str, address: str, wait_s: float = 1) -> bool:
        """Whether one ping from the VM (a stand-in) is answered."""
        words = ["ping", "-n", "-c", "1", "-W", f"{wait_s:g}", address]
        return self.cluster.attempt(*words, node=vm).returncode == 0

    def move_vm(
        self, vm: str, source: str, target: str, *, binding: str = "managed", keep_source: bool = False
    ) -> float:
        """The VM itself moves, as a hypervisor does it; returns the guest's time when it had arrived."""
        words = ["move", vm, source, target, "--binding", binding]
        self.cluster.tool("vm", *words, *(["--keep-source"] if keep_source else []))
        return self.cluster.now()

    def start_migration(self, vm: str | None, target: str, **options: object) -> str:
        """Orders it; returns its id. Defaults: ovnmig binds, the VM's arrival triggers, 1 s of overlap."""
        defaults = {"binding": "ovnmig", "overlap_s": 1} if vm else {"overlap_s": 1}
        request: dict[str, object] = {"udn": self.name, "target": target, "port": vm} | defaults | options
        return str(self.cluster.rest.migrate(**request)["id"])

    def arrive(self, migration: str, vm: str, source: str, target: str) -> float:
        """Waits for ready, plugs the VM in on the target and lets it run there; returns when."""
        self.cluster.rest.reached(migration, {"ready"})
        self.cluster.tool("vm", "plug", vm, target)
        self.cluster.tool("vm", "wait", vm, target)
        return self.move_vm(vm, source, target)

    def order_switch(self, migration: str) -> None:
        """Orders the switch, as soon as the copy is complete: before that the order is refused."""

        def accepted() -> bool:
            answer = self.cluster.rest.call("POST", f"/v1/migrations/{migration}/switch")
            assert answer.status in (202, 409), answer.body
            return answer.status == 202

        eventually("the switch ordered", accepted, 20)

    def migrate(self, vm: str, source: str, target: str, **options: object) -> Any:
        """A whole migration of a VM; returns its last answer, ``moved_at`` (guest's time) added."""
        migration = self.start_migration(vm, target, **options)
        moved = self.arrive(migration, vm, source, target)
        done = self.cluster.rest.reached(migration, {"completed"})
        return done | {"moved_at": moved}

    def remove(self) -> None:
        """Takes everything away again, whatever of it there is."""
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                answer = self.cluster.rest.call("DELETE", self.path)
                if answer.status != 409:
                    break
                running = self.cluster.rest.call("GET", self.path).body.get("migration")
                self.cluster.rest.call("DELETE", f"/v1/migrations/{running}")
                time.sleep(0.2)
        for vm in self.vms:
            self.cluster.attempt("/usr/bin/python3", "-m", "devenv.guest.vm", "del", vm)
        self.cluster.nbctl("--if-exists", "ls-del", self.name)

    def assert_nothing_left(self, *, alone: bool) -> None:
        """No row of the UDN and no transfer is left; ``alone``: all of the database is as before."""
        after = database.dump(self.cluster)
        left = database.owned_rows(after, self.name)
        if alone:
            left += database.differences(self.before, after)
        assert not left, "left in the Northbound database:\n" + "\n".join(left)
        self.cluster.rest.wait(
            "no transfer left on any agent",
            "/v1/nodes",
            lambda answer: not any(node["agent_transfers"] for node in answer["nodes"]),
            15,
        )


_numbers = iter(range(100, 250))
_open: list[World] = []


@contextlib.contextmanager
def one_world(
    cluster: Cluster, name: str = "", families: tuple[int, ...] = (4, 6), inner: int = 0
) -> Iterator[World]:
    """One world for the block, nothing in it yet. Its name is wN by default."""
    number = next(_numbers)
    world = World(cluster, name or f"w{number}", number, families, inner)
    _open.append(world)
    try:
        yield world
    finally:
        world.remove()
        _open.remove(world)
    world.assert_nothing_left(alone=not any(other.cluster is cluster for other in _open))


@contextlib.contextmanager
def furnished(
    cluster: Cluster, name: str = "", families: tuple[int, ...] = (4, 6), inner: int = 0
) -> Iterator[World]:
    """One world with its switch and two VMs on the first chassis, without a gateway yet."""
    with one_world(cluster, name, families, inner) as world:
        world.add_switch()
        world.add_vm(f"w{world.number}-1")
        world.add_vm(f"w{world.number}-2")
        yield world
