"""In-memory node helpers with switches for failures, and a history that forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ovnmig.core.migration import MigrationRecord
from ovnmig.core.transfer import (
    AnnounceOrder,
    AnnounceState,
    AnnounceStatus,
    Counts,
    HeldOrder,
    NodeStatus,
    OrderKind,
    Readiness,
    ReadinessOrder,
    TransferOrder,
    TransferState,
    TransferStatus,
)
from ovnmig.engine.protocols import AgentRefused, AgentUnreachable, JournalEvent


@dataclass
class Transfer:
    order: TransferOrder
    state: TransferState
    reason: str = ""
    given_at: float = 0.0


@dataclass
class FakeAgent:
    """One node's agent. ``down`` in words: unreachable. ``copy_state``: what a started transfer answers.
    ``forgets_next``: it restarts just before its next final delta. ``deployment``: whose orders it takes its
    orders for. ``tells_orders`` False: one of a release that cannot say what it holds."""

    chassis: str
    down: str = ""
    refuses: str = ""
    zones: dict[str, int] = field(default_factory=dict)
    bfd: dict[str, str] = field(default_factory=dict)
    bfd_flaps: dict[str, int] = field(default_factory=dict)
    uplink: str = ""
    entries: int = 100
    entries_max: int = 262144
    zone_entries: dict[str, int] = field(default_factory=dict)
    copy_state: TransferState = TransferState.IN_STEP
    finish_state: TransferState = TransferState.FINAL
    transfers: dict[str, Transfer] = field(default_factory=dict)
    armed: dict[str, AnnounceOrder] = field(default_factory=dict)
    armed_at: dict[str, float] = field(default_factory=dict)
    deployment: str = "ovnmig"
    arm_fails: str = ""
    ended: list[str] = field(default_factory=list)
    hangs: bool = False
    forgets_next: bool = False
    notices_dead_peer: bool = True
    confirmed_s: float = 0.2
    tells_orders: bool = True
    refuses_ends: str = ""

    def restart(self) -> None:
        """Lose all memory."""
        self.transfers.clear()
        self.armed.clear()


class FakeAgents:
    """All agents. ``log`` holds the orders in the order given, ``now`` tells the time."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.now = now
        self.nodes: dict[str, FakeAgent] = {}
        self.log: list[str] = []
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Whoever hung looks again."""
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()

    async def _agent(self, chassis: str) -> FakeAgent:
        await asyncio.sleep(0)
        agent = self.nodes.get(chassis)
        if agent is None:
            raise AgentUnreachable(f"no agent on {chassis}")
        while agent.hangs:
            await self._woken.wait()
        if agent.down:
            raise AgentUnreachable(agent.down)
        if agent.refuses:
            raise AgentRefused(agent.refuses)
        return agent

    async def node(self, chassis: str) -> NodeStatus:
        agent = await self._agent(chassis)
        return NodeStatus(
            chassis, "0.1", "6.12", "3.5", agent.entries, agent.entries_max, len(agent.transfers), 8789
        )

    async def readiness(self, chassis: str, order: ReadinessOrder) -> Readiness:
        agent = await self._agent(chassis)
        wanted = {zone.key for zone in order.zones}
        zones: Mapping[str, int] = {key: number for key, number in agent.zones.items() if key in wanted}
        return Readiness(
            zones,
            dict(agent.bfd),
            agent.uplink,
            agent.entries,
            agent.entries_max,
            dict(agent.zone_entries),
            dict(agent.bfd_flaps),
        )

    async def start_transfer(self, chassis: str, order: TransferOrder) -> TransferStatus:
        agent = await self._agent(chassis)
        known = agent.transfers.get(order.id)
        if known is None or known.state is TransferState.FAILED:
            zones = " ".join(zone.key for zone in order.zones)
            self.log.append(f"{chassis}: send {zones} to {order.peer.chassis} as {order.id}")
            agent.transfers[order.id] = Transfer(order, agent.copy_state, given_at=self.now())
        return self._status(agent, order.id)

    def _status(self, agent: FakeAgent, ident: str) -> TransferStatus:
        transfer = agent.transfers[ident]
        if transfer.state not in (TransferState.FINAL, TransferState.FAILED):
            peer = self.nodes[transfer.order.peer.chassis]
            lost = bool(peer.down) and agent.notices_dead_peer
            transfer.state = TransferState.FAILED if lost else agent.copy_state
            transfer.reason = f"{peer.chassis}: {peer.down}" if lost else ""
        counts, silent_s = Counts(read=5, created=5), agent.confirmed_s
        return TransferStatus(ident, transfer.state, counts, reason=transfer.reason, synced_s=silent_s)

    async def transfer(self, chassis: str, transfer_id: str) -> TransferStatus | None:
        agent = await self._agent(chassis)
        return self._status(agent, transfer_id) if transfer_id in agent.transfers else None

    async def finish_transfer(self, chassis: str, transfer_id: str) -> TransferStatus:
        agent = await self._agent(chassis)
        if agent.forgets_next:
            agent.forgets_next = False
            agent.restart()
        if transfer_id not in agent.transfers:
            raise AgentRefused(f"no transfer {transfer_id}")
        if self._status(agent, transfer_id).state is not TransferState.FAILED:
            agent.transfers[transfer_id].state = agent.finish_state
            self.log.append(f"{chassis}: final delta of {transfer_id}")
        return self._status(agent, transfer_id)

    async def end_transfer(self, chassis: str, transfer_id: str) -> None:
        agent = await self._agent(chassis)
        if agent.refuses_ends:
            raise AgentRefused(agent.refuses_ends)
        agent.ended.append(transfer_id)
        if agent.transfers.pop(transfer_id, None) is not None:
            self.log.append(f"{chassis}: end {transfer_id}")

    async def arm(self, chassis: str, order: AnnounceOrder) -> AnnounceStatus:
        agent = await self._agent(chassis)
        if agent.arm_fails:
            return AnnounceStatus(order.id, AnnounceState.FAILED, reason=agent.arm_fails)
        if order.id not in agent.armed:
            self.log.append(f"{chassis}: arm {' '.join(order.addresses)}")
            agent.armed_at[order.id] = self.now()
        agent.armed[order.id] = order
        return AnnounceStatus(order.id, AnnounceState.ARMED)

    async def announcement(self, chassis: str, announce_id: str) -> AnnounceStatus | None:
        agent = await self._agent(chassis)
        return AnnounceStatus(announce_id, AnnounceState.ARMED) if announce_id in agent.armed else None

    async def disarm(self, chassis: str, announce_id: str) -> None:
        agent = await self._agent(chassis)
        if agent.refuses_ends:
            raise AgentRefused(agent.refuses_ends)
        agent.armed.pop(announce_id, None)

    async def orders(self, chassis: str) -> tuple[HeldOrder, ...]:
        agent, now = await self._agent(chassis), self.now()
        if not agent.tells_orders:
            return ()
        transfers = tuple(
            HeldOrder(
                OrderKind.TRANSFER,
                one.order.id,
                one.order.udn,
                one.order.epoch,
                now - one.given_at,
                one.order.migration,
                agent.deployment,
                one.order.peer.chassis,
                one.order.keep,
            )
            for one in agent.transfers.values()
        )
        armed = tuple(
            HeldOrder(
                OrderKind.ANNOUNCEMENT,
                one.id,
                one.udn,
                one.epoch,
                now - agent.armed_at[one.id],
                one.migration,
                agent.deployment,
            )
            for one in agent.armed.values()
        )
        return transfers + armed


class MemoryHistory:
    """A history that forgets with the process. ``fails`` in words: it cannot be written."""

    def __init__(self) -> None:
        self.migrations: dict[str, MigrationRecord] = {}
        self.events: list[JournalEvent] = []
        self.fails = ""

    async def append(
        self, *, at: float, kind: str, udn: str, migration: str, message: str, details: Mapping[str, object]
    ) -> JournalEvent:
        if self.fails:
            raise OSError(self.fails)
        event = JournalEvent(len(self.events) + 1, at, kind, udn, migration, message, details)
        self.events.append(event)
        return event

    async def read(
        self, *, after: int = 0, limit: int = 1000, migration: str | None = None
    ) -> tuple[JournalEvent, ...]:
        found = [e for e in self.events if e.seq > after and migration in (None, e.migration)]
        return tuple(found[:limit])

    async def keep(self, record: MigrationRecord) -> None:
        if self.fails:
            raise OSError(self.fails)
        self.migrations[record.id] = record

    async def kept(self, migration_id: str) -> MigrationRecord | None:
        return self.migrations.get(migration_id)

    async def all_kept(self, *, udn: str | None = None, limit: int = 1000) -> tuple[MigrationRecord, ...]:
        found = [record for record in self.migrations.values() if udn in (None, record.udn)]
        return tuple(sorted(found, key=lambda record: -record.created_at)[:limit])
