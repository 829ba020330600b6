"""A small cluster of fakes that behaves: OVN claims by priority, agents copy, VMs migrate."""

from __future__ import annotations

import itertools
from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network
from types import TracebackType

from ovnmig.core.deadlines import Limits
from ovnmig.core.migration import Binding, MigrationRecord, MigrationRequest
from ovnmig.core.names import gateway_names
from ovnmig.core.rows import Change
from ovnmig.core.udn import UdnRequest
from ovnmig.core.views import ChassisView
from ovnmig.engine.controller import Controller
from ovnmig.engine.options import EngineOptions
from tests.engine.agents import FakeAgent, FakeAgents, MemoryHistory
from tests.engine.clock import ManualClock
from tests.engine.databases import FakeNorthbound, FakeSouthbound

CHASSIS = ("A", "B", "C")


def a_udn(name: str = "blue", host: int = 100, **changes: object) -> UdnRequest:
    """A dual-stack UDN on switch ``sw`` with a gateway of two."""
    request = UdnRequest(
        name=name,
        subnets=(ip_network(f"10.{host}.0.0/24"), ip_network(f"fd00:{host}::/64")),
        vips=(ip_interface(f"172.16.1.{host}/24"), ip_interface(f"fd16::{host}/64")),
        physical_network="public",
        nexthops=(ip_address("172.16.1.1"), ip_address("fd16::1")),
        switch="sw",
        anchor="vm1",
        chassis=CHASSIS,
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def a_request(**changes: object) -> MigrationRequest:
    """vm1 and its gateway to B."""
    request = MigrationRequest(udn="blue", target="B", port="vm1", binding=Binding.OVNMIG)
    return replace(request, **changes)  # type: ignore[arg-type]


class World:
    """Fakes wired together. Controllers come and go (:meth:`controller`); everything else stays, as in
    life."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.nb = FakeNorthbound(self.clock)
        self.sb = FakeSouthbound(self.clock)
        self.agents = FakeAgents(self.clock.now)
        self.history = MemoryHistory()
        self.ids = itertools.count(1)
        self.claims = True
        self.dead: set[str] = set()
        self.options = EngineOptions()
        for number, name in enumerate(CHASSIS):
            self.sb.chassis[name] = ChassisView(
                name, f"host-{name}", (f"192.0.2.{number + 1}",), frozenset({"public"}), False, self.nb.nb_cfg
            )
            self.agents.nodes[name] = FakeAgent(name, bfd={other: "up" for other in CHASSIS if other != name})
        for vm in ("vm1", "vm2"):
            self.nb.ports[vm] = {}
            self.sb.bind(vm, "A")
        self.nb.on_apply = self._react

    def _react(self, change: Change) -> None:
        """What OVN does with a transaction: flows on every chassis, zones on members, the claim by
        priority."""
        for name, chassis in self.sb.chassis.items():
            self.sb.chassis[name] = replace(chassis, nb_cfg=self.nb.nb_cfg)
        if change.udn not in self.nb.udns or not self.claims:
            return
        named = gateway_names(change.udn)
        members = self.nb.members(change.udn)
        alive = {name: priority for name, priority in members.items() if name not in self.dead}
        for name in members:
            for kind in ("snat", "dnat"):
                self.agents.nodes[name].zones[f"{kind}:{named.router}"] = 7
        if alive:
            self.sb.bind(named.chassis_redirect_port, max(alive, key=lambda name: alive[name]))

    def reclaim(self) -> None:
        """OVN looks again who is first, after a node came back."""
        for udn in self.nb.udns:
            members = self.nb.members(udn)
            alive = {name: priority for name, priority in members.items() if name not in self.dead}
            first = max(alive, key=lambda name: alive[name])
            self.sb.bind(gateway_names(udn).chassis_redirect_port, first)

    def controller(self, name: str = "one", limits: Limits | None = None) -> Running:
        """A controller process."""
        return Running(self, name, limits)

    def owner(self, udn: str = "blue") -> str:
        """Who owns the gateway."""
        return self.sb.bindings[gateway_names(udn).chassis_redirect_port].chassis

    def plug(self, vm: str, chassis: str) -> None:
        """The VM's target interface appears: its zone exists there from now on."""
        self.agents.nodes[chassis].zones[f"port:{vm}"] = 11

    def arrive(self, vm: str, chassis: str, *, bound: bool = False) -> None:
        """The VM starts on ``chassis`` and sends its RARP (or is simply bound there)."""
        self.plug(vm, chassis)
        if bound:
            self.sb.bind(vm, chassis)
        else:
            self.sb.bind(vm, self.sb.bindings[vm].chassis, activated=(chassis,))

    def settle_binding(self, vm: str, chassis: str) -> None:
        """OVN follows ``requested-chassis`` after the switch."""
        self.sb.bind(vm, chassis, activated=())

    def kinds(self) -> list[str]:
        """The journal's kinds and messages, in order."""
        return [f"{event.kind}: {event.message}" for event in self.history.events]


class Running:
    """A controller process in a test: leaving the context is its death; nothing is tidied up, a real one
    could not."""

    def __init__(self, world: World, name: str, limits: Limits | None) -> None:
        self.world = world
        self.seat = world.nb.seen_by(name)
        options = replace(world.options, limits=limits) if limits else world.options
        self.api = Controller(
            northbound=self.seat,
            southbound=world.sb,
            agents=world.agents,
            history=world.history,
            clock=world.clock,
            owner="ovnmig",
            new_id=lambda: f"m{next(world.ids)}",
            options=options,
        )

    async def __aenter__(self) -> Running:
        await self.api.__aenter__()
        await self.world.clock.settle()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.api.__aexit__(kind, error, trace)
        if self.world.nb.leader == self.seat.name:
            self.world.nb.leader = None

    async def phase(self, ident: str) -> str:
        """The migration's phase now."""
        return (await self.api.migration(ident)).phase.value

    async def until(self, ident: str, *phases: str, limit: int = 4000) -> MigrationRecord:
        """Turn the clock until the migration is in one of ``phases``."""
        record = await self.api.migration(ident)
        for _ in range(limit):
            if record.phase.value in phases:
                return record
            await self.world.clock.turn()
            record = await self.api.migration(ident)
        raise AssertionError(
            f"{ident} never came to {phases}, it is {record.phase.value}: {record.waits_for}"
        )


async def moved(one: Running, target: str, vm: str = "vm1", **changes: object) -> str:
    """Migrate to ``target`` until it converges; the id."""
    record = await one.api.migrate(a_request(target=target, **changes))
    await one.until(record.id, "ready")
    one.world.arrive(vm, target)
    await one.until(record.id, "converging")
    one.world.settle_binding(vm, target)
    return record.id
