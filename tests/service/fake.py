"""An in-memory ControllerApi with fail-next switches: it keeps what it is told, so that answers can be
checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_interface

from ovnmig.core.bfd import VALUES, Profile
from ovnmig.core.migration import ENDED, MigrationRecord, MigrationRequest, Phase
from ovnmig.core.transfer import Counts, NodeStatus
from ovnmig.core.udn import Member, Placement, Problem, UdnRequest, UdnSpec
from ovnmig.engine.protocols import Conflict, DryRun, Health, JournalEvent, NodeState, NotFound, UdnState

START = 1_700_000_000.0


def node(name: str, *, agent: bool = True, problems: tuple[str, ...] = ()) -> NodeState:
    """A chassis that maps ``public``; without ``agent`` nobody answers there."""
    status = NodeStatus(name, "0.1.0", "6.12.0", "3.5.0", 100, 1000, 0, 8789, problems) if agent else None
    return NodeState(
        chassis=name,
        hostname=name,
        encap_ips=("170.168.0.2",),
        physical_networks=("public",),
        gateway_preferred=True,
        agent=status,
        agent_problem="" if agent else f"no agent answers on {name}",
        gateways=(),
    )


@dataclass
class FakeController:
    """State in dictionaries. ``fail_next``: raised by the next call. ``problems_next``: what the next dry run
    finds."""

    fail_next: Exception | None = None
    problems_next: tuple[Problem, ...] = ()
    health_now: Health = field(default_factory=lambda: Health(True, "leader", ()))
    states: dict[str, UdnState] = field(default_factory=dict)
    records: dict[str, MigrationRecord] = field(default_factory=dict)
    nodes_now: tuple[NodeState, ...] = field(default_factory=lambda: (node("gw-1"), node("gw-2")))
    bfd_now: Mapping[str, str] = field(default_factory=dict)
    requests: list[MigrationRequest] = field(default_factory=list)
    unknown_udns_are_refused: bool = False
    old: dict[str, MigrationRecord] = field(default_factory=dict)
    journal: list[JournalEvent] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def _fail(self) -> None:
        error, self.fail_next = self.fail_next, None
        if error is not None:
            raise error

    def _state(self, request: UdnRequest, epoch: int) -> UdnState:
        spec = UdnSpec(
            name=request.name,
            switch=request.switch or request.name,
            switch_uuid=None if request.create_switch else "00000000-0000-0000-0000-000000000001",
            subnets=request.subnets,
            gateway_addresses=request.gateway_addresses
            or tuple(ip_interface(f"{n.network_address + 1}/{n.prefixlen}") for n in request.subnets),
            vips=request.vips,
            nexthops=request.nexthops,
            physical_network=request.physical_network,
            vlan=request.vlan,
            port_range=request.port_range,
            snat_zone={None: 32768, "off": None}.get(request.snat_zone, request.snat_zone),  # type: ignore[arg-type]
            inner_mac="0a:58:00:00:00:01",
            external_mac="0a:58:00:00:00:02",
            policy=request.policy,
            anchor=request.anchor,
            standby_count=request.standby_count,
            chassis=request.chassis,
            replication=request.replication,
        )
        placement = Placement((Member(20, "gw-1"), Member(10, "gw-2")), {"gw-1": "active", "gw-2": "standby"})
        return UdnState(
            spec=spec,
            epoch=epoch,
            placement=placement,
            owner="gw-1",
            router=f"ovnmig-{request.name}",
            protected=True,
            drift=(),
            migration=None,
        )

    async def create_udn(self, request: UdnRequest) -> UdnState:
        self._fail()
        state = self._state(request, 1)
        there = self.states.get(request.name)
        if there is not None:
            if there.spec != state.spec:
                raise Conflict(f"UDN {request.name!r} exists and differs; change it with PUT")
            return replace(there, changed=False)
        self.states[request.name] = state
        return state

    async def change_udn(self, name: str, request: UdnRequest) -> UdnState:
        self._fail()
        there = await self.udn(name)
        state = self._state(request, there.epoch + 1)
        if there.spec == state.spec:
            return replace(there, changed=False)
        self.states[name] = state
        return state

    async def delete_udn(self, name: str) -> None:
        self._fail()
        await self.udn(name)
        del self.states[name]

    async def udn(self, name: str) -> UdnState:
        self._fail()
        if name not in self.states:
            raise NotFound(f"there is no UDN {name!r}")
        return self.states[name]

    async def udns(self) -> tuple[UdnState, ...]:
        self._fail()
        return tuple(self.states.values())

    async def move_gateway(
        self,
        name: str,
        target: str,
        *,
        overlap_s: float,
        allow_interruption: bool = False,
        idempotency_key: str | None,
    ) -> MigrationRecord:
        await self.udn(name)
        request = MigrationRequest(
            name,
            target,
            overlap_s=overlap_s,
            idempotency_key=idempotency_key,
            allow_interruption=allow_interruption,
        )
        return await self.migrate(request)

    async def migrate(self, request: MigrationRequest) -> MigrationRecord:
        self._fail()
        await self.udn(request.udn)
        self.requests.append(request)
        for record in self.records.values():
            if record.udn == request.udn and record.phase not in ENDED:
                if request.idempotency_key and record.idempotency_key == request.idempotency_key:
                    return record
                raise Conflict(
                    f"migration {record.id} of UDN {request.udn!r} is in flight: wait for it or cancel it"
                )
        record = MigrationRecord(
            id=f"m{len(self.records) + 1}",
            udn=request.udn,
            target=request.target,
            source="gw-1",
            port=request.port,
            port_source="gw-1" if request.port else "",
            moves_gateway=request.gateway is not False,
            binding=request.binding,
            trigger=request.trigger,
            transfer=request.transfer,
            overlap_s=request.overlap_s,
            phase=Phase.REQUESTED,
            created_at=START,
            phase_since=START,
            idempotency_key=request.idempotency_key,
            phase_times=((Phase.REQUESTED, START),),
        )
        self.records[record.id] = record
        await self.happen("accepted", record, "migration accepted")
        return record

    async def dry_run(self, request: MigrationRequest) -> DryRun:
        self._fail()
        await self.udn(request.udn)
        return DryRun(self.problems_next, (f"add {request.target} to the HA set of {request.udn!r}",))

    async def migration(self, migration_id: str) -> MigrationRecord:
        self._fail()
        if migration_id not in self.records:
            raise NotFound(f"there is no migration {migration_id!r}")
        return self.records[migration_id]

    async def migrations(self, *, udn: str | None = None) -> tuple[MigrationRecord, ...]:
        self._fail()
        if self.unknown_udns_are_refused and udn is not None:
            await self.udn(udn)
        return tuple(r for r in self.records.values() if udn is None or r.udn == udn)

    async def old_migration(self, migration_id: str) -> MigrationRecord:
        self._fail()
        if migration_id not in self.old:
            raise NotFound(f"there is no migration {migration_id!r}, in the history neither")
        return self.old[migration_id]

    async def old_migrations(self, *, udn: str | None = None) -> tuple[MigrationRecord, ...]:
        self._fail()
        return tuple(r for r in self.old.values() if udn is None or r.udn == udn)

    async def switch(self, migration_id: str) -> MigrationRecord:
        record = replace(await self.migration(migration_id), switch_ordered=True)
        self.records[migration_id] = record
        return record

    async def cancel(self, migration_id: str) -> MigrationRecord:
        record = await self.migration(migration_id)
        if record.phase in ENDED:
            raise Conflict(f"migration {migration_id} has ended ({record.phase}); there is nothing to cancel")
        await self.enter(migration_id, Phase.ROLLED_BACK, reason="cancelled")
        return self.records[migration_id]

    async def nodes(self) -> tuple[NodeState, ...]:
        self._fail()
        return self.nodes_now

    async def bfd(self) -> Mapping[str, str]:
        self._fail()
        return self.bfd_now

    async def set_bfd(self, profile: Profile) -> Mapping[str, str]:
        self._fail()
        self.bfd_now = VALUES[profile]
        return self.bfd_now

    async def health(self) -> Health:
        self._fail()
        return self.health_now

    async def events(self, *, after: int | None = None, follow: bool = True) -> AsyncIterator[JournalEvent]:
        at = len(self.journal) if after is None else after
        while True:
            while at < len(self.journal):
                at += 1
                yield self.journal[at - 1]
            if not follow:
                return
            async with self.news:
                await self.news.wait()

    async def happen(self, kind: str, record: MigrationRecord, message: str) -> None:
        """Append to the history and tell the followers."""
        seq = len(self.journal) + 1
        self.journal.append(JournalEvent(seq, START + seq, kind, record.udn, record.id, message, {}))
        async with self.news:
            self.news.notify_all()

    async def enter(
        self, migration_id: str, phase: Phase, *, counts: Counts | None = None, reason: str = ""
    ) -> None:
        """Let a migration reach ``phase``, one second after the phase before."""
        old = self.records[migration_id]
        at = old.phase_since + 1.0
        self.records[migration_id] = replace(
            old,
            phase=phase,
            phase_since=at,
            ended_at=at if phase in ENDED else None,
            counts=counts or old.counts,
            reason=reason,
            phase_times=(*old.phase_times, (phase, at)),
        )
        await self.happen("phase", self.records[migration_id], f"{old.phase} -> {phase}")
