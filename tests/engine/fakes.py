"""Small in-memory outsides with switches for failures that cannot be provoked otherwise, and a clock that
tests turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ovnmig.core.rows import Change, Committed, EpochConflict, PortEdit, Row
from ovnmig.core.transfer import (
    AnnounceOrder,
    AnnounceState,
    AnnounceStatus,
    Counts,
    NodeStatus,
    Readiness,
    ReadinessOrder,
    TransferOrder,
    TransferState,
    TransferStatus,
)
from ovnmig.core.views import (
    BindingView,
    ChassisView,
    NbView,
    OwnedRow,
    PortView,
    RecordRow,
    SbView,
    SwitchView,
)
from ovnmig.engine.protocols import AgentRefused, AgentUnreachable, DatabaseUnavailable, JournalEvent

IDLE_ROUNDS = 60


class ManualClock:
    """Time stands still until :meth:`turn` lets everybody run and jumps to the next wake-up."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, delay_s: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self._now + delay_s, future)
        self._sleepers.append(entry)
        try:
            await future
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    async def settle(self) -> None:
        """Let every task run until all of them wait."""
        for _ in range(IDLE_ROUNDS):
            await asyncio.sleep(0)

    async def turn(self, until: float | None = None) -> bool:
        """Settle, then jump to the next wake-up (not beyond ``until``) and settle. False when nobody sleeps
        that short."""
        await self.settle()
        waiting = [at for at, future in self._sleepers if not future.done()]
        due = min(waiting, default=None)
        if due is None or (until is not None and due > until):
            if until is not None:
                self._now = max(self._now, until)
            return False
        self._now = max(self._now, due)
        for at, future in list(self._sleepers):
            if at <= self._now and not future.done():
                future.set_result(None)
        await self.settle()
        return True

    async def pass_time(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self._now + seconds
        while await self.turn(end):
            pass
        self._now = end

    async def until(self, condition: Callable[[], bool], limit: int = 3000) -> None:
        """Turn until ``condition`` holds."""
        for _ in range(limit):
            await self.settle()
            if condition():
                return
            await self.turn()
        raise AssertionError("it never came to that")


class Changing:
    """Wakes whoever waits for a change, or whoever waited long enough."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def changed(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, timeout_s: float) -> bool:
        event = self._event
        sleep: asyncio.Task[Any]
        async with asyncio.TaskGroup() as group:
            sleep = group.create_task(self._clock.sleep(timeout_s))
            news = group.create_task(event.wait())
            await asyncio.wait({sleep, news}, return_when=asyncio.FIRST_COMPLETED)
            sleep.cancel()
            news.cancel()
        return event.is_set()


@dataclass
class Udn:
    epoch: int
    document: str
    rows: dict[str, tuple[str, Row]] = field(default_factory=dict)


class FakeNorthbound:
    """Applies changes on rows with the epoch check of the real one. ``orders``: where to write down the order
    of things (tests may share one list with the agents). ``fail_next`` lists what the next applies raise
    (after writing, where ``lost_answer`` says so); several controllers may share one, the lock goes to
    ``leader``."""

    def __init__(self, clock: ManualClock) -> None:
        self.udns: dict[str, Udn] = {}
        self.ports: dict[str, dict[str, str]] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        self.nb_cfg = 4
        self.fail_next: list[Exception | None] = []
        self.lost_answer = False
        self.race_next = 0
        self.down = ""
        self.log: list[tuple[str, Change]] = []
        self.orders: list[str] = []
        self.on_apply: Callable[[Change], None] | None = None
        self.news = Changing(clock)
        self.leader: object | None = None
        self._uuid = 0

    def seen_by(self, name: object) -> NorthboundSeat:
        """The view of one controller."""
        return NorthboundSeat(self, name)

    def view(self) -> NbView:
        if self.down:
            raise DatabaseUnavailable(self.down)
        ports = tuple(
            PortView(f"uuid-{name}", name, "", self.addresses.get(name, ()), dict(options), {})
            for name, options in self.ports.items()
        )
        owned = tuple(
            OwnedRow(uuid, name, row.role, row.table, row.columns, self._parent(udn, row))
            for name, udn in self.udns.items()
            for uuid, row in udn.rows.values()
        )
        records = tuple(
            RecordRow(f"record-{name}", name, udn.epoch, udn.document) for name, udn in self.udns.items()
        )
        return NbView((SwitchView("uuid-sw", "sw", ports),), (), owned, records, self.nb_cfg)

    def _parent(self, udn: Udn, row: Row) -> str | None:
        if row.parent is None:
            return None
        return row.parent.uuid if row.parent.role is None else udn.rows[row.parent.role][0]

    def apply(self, change: Change) -> Committed:
        failure = self.fail_next.pop(0) if self.fail_next else None
        if failure is not None and not self.lost_answer:
            raise failure
        if self.down:
            raise DatabaseUnavailable(self.down)
        udn = self.udns.get(change.udn)
        if self.race_next and udn is not None:
            self.race_next -= 1
            udn.epoch += 1
        if (udn.epoch if udn else None) != change.expected_epoch:
            raise EpochConflict(f"UDN {change.udn!r} is at {udn.epoch if udn else None}")
        committed = self._write(udn, change)
        self.news.changed()
        if self.on_apply is not None:
            self.on_apply(change)
        if failure is not None:
            self.lost_answer = False
            raise failure
        return committed

    def _write(self, udn: Udn | None, change: Change) -> Committed:
        if change.document is None:
            del self.udns[change.udn]
            return Committed(0, self.nb_cfg, True)
        wanted = None if change.rows is None else {row.role: row for row in change.rows}
        same_rows = wanted is None or (
            udn is not None and wanted == {role: row for role, (_, row) in udn.rows.items()}
        )
        edited = [edit for edit in change.ports if self._applies(edit)]
        if udn is not None and udn.document == change.document and same_rows and not edited:
            return Committed(udn.epoch, self.nb_cfg, False)
        if udn is None:
            udn = self.udns[change.udn] = Udn(99, change.document)
        udn.epoch += 1
        udn.document = change.document
        if wanted is not None:
            udn.rows = {
                role: (udn.rows[role][0] if role in udn.rows else self._new_uuid(), row)
                for role, row in wanted.items()
            }
        for edit in edited:
            self._edit(edit)
        if change.bump_nb_cfg:
            self.nb_cfg += 1
        self.log.append((_kind(change), change))
        self.orders.append(f"NB: {_kind(change)}")
        return Committed(udn.epoch, self.nb_cfg, True)

    def _new_uuid(self) -> str:
        self._uuid += 1
        return f"uuid-{self._uuid:04}"

    def _applies(self, edit: PortEdit) -> bool:
        options = self.ports.get(edit.port, {})
        return all(options.get(key) == value for key, value in (edit.only_if or {}).items())

    def _edit(self, edit: PortEdit) -> None:
        options = self.ports[edit.port]
        for key, value in edit.options.items():
            if value is None:
                options.pop(key, None)
            else:
                options[key] = value

    def members(self, udn: str) -> dict[str, int]:
        """The HA set as the rows have it."""
        rows = (row for _, row in self.udns[udn].rows.values() if row.table == "Gateway_Chassis")
        return {str(row.columns["chassis_name"]): int(str(row.columns["priority"])) for row in rows}

    def effects(self) -> list[str]:
        """The kinds of transactions written so far."""
        return [kind for kind, _ in self.log]


def _kind(change: Change) -> str:
    if change.rows is None:
        return "record"
    return "rows, record and nb_cfg" if change.bump_nb_cfg else "rows and record"


class NorthboundSeat:
    """One controller's connection to the shared fake."""

    def __init__(self, shared: FakeNorthbound, name: object) -> None:
        self.shared = shared
        self.name = name

    async def view(self) -> NbView:
        await asyncio.sleep(0)
        return self.shared.view()

    async def apply(self, change: Change) -> Committed:
        await asyncio.sleep(0)
        committed = self.shared.apply(change)
        await asyncio.sleep(0)
        return committed

    async def wait_changed(self, timeout_s: float) -> bool:
        return await self.shared.news.wait(timeout_s)

    async def healthy(self) -> str:
        return self.shared.down

    async def try_lock(self) -> bool:
        if self.shared.down:
            raise DatabaseUnavailable(self.shared.down)
        if self.shared.leader is None:
            self.shared.leader = self.name
        return self.shared.leader is self.name


class FakeSouthbound:
    """Chassis and bindings that tests (or :class:`tests.engine.world.World`) set. ``down``: in words, why it
    is away."""

    def __init__(self, clock: ManualClock) -> None:
        self.chassis: dict[str, ChassisView] = {}
        self.bindings: dict[str, BindingView] = {}
        self.datapaths: dict[str, str] = {}
        self.down = ""
        self.news = Changing(clock)

    def bind(self, port: str, chassis: str, **changes: Any) -> None:
        """Show ``port`` bound on ``chassis``."""
        known = self.bindings.get(port, BindingView(port, "", "", (), (), True, "dp"))
        self.bindings[port] = replace(known, chassis=chassis, **changes)
        self.news.changed()

    async def view(self) -> SbView:
        await asyncio.sleep(0)
        if self.down:
            raise DatabaseUnavailable(self.down)
        return SbView(tuple(self.chassis.values()), tuple(self.bindings.values()), dict(self.datapaths))

    async def wait_until(self, predicate: Callable[[SbView], bool], timeout_s: float) -> bool:
        if predicate(await self.view()):
            return True
        await self.news.wait(timeout_s)
        return predicate(await self.view())

    async def healthy(self) -> str:
        return self.down


@dataclass
class Transfer:
    order: TransferOrder
    state: TransferState
    reason: str = ""


@dataclass
class FakeAgent:
    """One node's agent. ``down`` in words: unreachable. ``copy_state``: what a started transfer answers.
    ``forgets_next``: it restarts just before its next final delta."""

    chassis: str
    down: str = ""
    refuses: str = ""
    zones: dict[str, int] = field(default_factory=dict)
    bfd: dict[str, str] = field(default_factory=dict)
    uplink: str = ""
    entries: int = 100
    entries_max: int = 262144
    zone_entries: dict[str, int] = field(default_factory=dict)
    copy_state: TransferState = TransferState.IN_STEP
    finish_state: TransferState = TransferState.FINAL
    transfers: dict[str, Transfer] = field(default_factory=dict)
    armed: dict[str, AnnounceOrder] = field(default_factory=dict)
    arm_fails: str = ""
    ended: list[str] = field(default_factory=list)
    hangs: bool = False
    forgets_next: bool = False
    notices_dead_peer: bool = True

    def restart(self) -> None:
        """Lose all memory."""
        self.transfers.clear()
        self.armed.clear()


class FakeAgents:
    """All agents. ``log`` holds the orders in the order given."""

    def __init__(self) -> None:
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
            zones, dict(agent.bfd), agent.uplink, agent.entries, agent.entries_max, dict(agent.zone_entries)
        )

    async def start_transfer(self, chassis: str, order: TransferOrder) -> TransferStatus:
        agent = await self._agent(chassis)
        known = agent.transfers.get(order.id)
        if known is None or known.state is TransferState.FAILED:
            zones = " ".join(zone.key for zone in order.zones)
            self.log.append(f"{chassis}: send {zones} to {order.peer.chassis} as {order.id}")
            agent.transfers[order.id] = Transfer(order, agent.copy_state)
        return self._status(agent, order.id)

    def _status(self, agent: FakeAgent, ident: str) -> TransferStatus:
        transfer = agent.transfers[ident]
        if transfer.state not in (TransferState.FINAL, TransferState.FAILED):
            peer = self.nodes[transfer.order.peer.chassis]
            lost = bool(peer.down) and agent.notices_dead_peer
            transfer.state = TransferState.FAILED if lost else agent.copy_state
            transfer.reason = f"{peer.chassis}: {peer.down}" if lost else ""
        return TransferStatus(ident, transfer.state, Counts(read=5, created=5), reason=transfer.reason)

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
        agent.ended.append(transfer_id)
        if agent.transfers.pop(transfer_id, None) is not None:
            self.log.append(f"{chassis}: end {transfer_id}")

    async def arm(self, chassis: str, order: AnnounceOrder) -> AnnounceStatus:
        agent = await self._agent(chassis)
        if agent.arm_fails:
            return AnnounceStatus(order.id, AnnounceState.FAILED, reason=agent.arm_fails)
        if order.id not in agent.armed:
            self.log.append(f"{chassis}: arm {' '.join(order.addresses)}")
        agent.armed[order.id] = order
        return AnnounceStatus(order.id, AnnounceState.ARMED)

    async def announcement(self, chassis: str, announce_id: str) -> AnnounceStatus | None:
        agent = await self._agent(chassis)
        return AnnounceStatus(announce_id, AnnounceState.ARMED) if announce_id in agent.armed else None

    async def disarm(self, chassis: str, announce_id: str) -> None:
        (await self._agent(chassis)).armed.pop(announce_id, None)


class MemoryHistory:
    """A history that forgets with the process. ``fails`` in words: it cannot be written."""

    def __init__(self) -> None:
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
