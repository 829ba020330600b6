"""The controller: leads or stands by, resumes what it finds in the database, and answers the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType

from ovnmig.core.bfd import VALUES, Profile
from ovnmig.core.migration import Binding, MigrationRecord, MigrationRequest, Trigger
from ovnmig.core.udn import UdnRequest
from ovnmig.core.views import NbView
from ovnmig.engine import store
from ovnmig.engine.counters import Counters, NoCounters
from ovnmig.engine.journal import Journal
from ovnmig.engine.moves import Moves
from ovnmig.engine.nodes import nodes
from ovnmig.engine.options import EngineOptions
from ovnmig.engine.perform import Performer
from ovnmig.engine.protocols import (
    Agents,
    Clock,
    DatabaseUnavailable,
    DryRun,
    Health,
    History,
    JournalEvent,
    NodeState,
    Northbound,
    NotLeader,
    Southbound,
    UdnState,
)
from ovnmig.engine.replicator import Replicator
from ovnmig.engine.runner import Outside
from ovnmig.engine.sweeper import Sweeper
from ovnmig.engine.udns import Udns, drifted

_ELECTION_S = 0.2
"""How soon a standby looks again whether it leads."""


class Controller:
    """Implements :class:`ovnmig.engine.protocols.ControllerApi`. Use as an async context manager: inside, it
    takes the lead when it can and carries migrations out; leaving stops all tasks and rolls nothing back, a
    new start resumes."""

    def __init__(
        self,
        *,
        northbound: Northbound,
        southbound: Southbound,
        agents: Agents,
        history: History,
        clock: Clock,
        owner: str,
        new_id: Callable[[], str],
        options: EngineOptions | None = None,
        counters: Counters | None = None,
    ) -> None:
        self._outside = Outside(
            northbound=northbound,
            southbound=southbound,
            performer=Performer(southbound, agents),
            journal=Journal(history, clock),
            clock=clock,
            options=options or EngineOptions(),
            counters=counters or NoCounters(),
        )
        self._agents = agents
        self._leads = False
        self._settled_in = False
        self._problem = "no look at the Northbound database yet"
        self._group = asyncio.TaskGroup()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._drift: dict[str, tuple[str, ...]] = {}
        self._moves = Moves(self._outside, agents, new_id, self._group)
        self._replicator = Replicator(self._outside, agents, self._moves)
        self._sweeper = Sweeper(self._outside, agents, owner)
        self._udns = Udns(self._outside, self._moves, self._replicator, owner)

    async def __aenter__(self) -> Controller:
        await self._group.__aenter__()
        work = (self._supervise(), self._replicate(), self._sweep())
        self._tasks = tuple(self._group.create_task(one) for one in work)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await self._moves.stop()
        await self._group.__aexit__(None, None, None)

    async def _supervise(self) -> None:
        """Follow the lock; while leading, adopt what has no task and report drift."""
        while True:
            try:
                await self._look()
            except DatabaseUnavailable as error:
                self._problem = str(error)
                await self._outside.clock.sleep(self._outside.options.watch_s)

    async def _replicate(self) -> None:
        """While leading, keep the standbys of replicated UDNs in step."""
        pause_s = self._outside.options.watch_s
        while True:
            if not self._leads:
                self._replicator.forget()
                await self._outside.clock.sleep(pause_s)
                continue
            try:
                await self._replicator.run(pause_s)
            except DatabaseUnavailable:
                await self._outside.clock.sleep(pause_s)

    async def _sweep(self) -> None:
        """While leading, end what was left behind on agents."""
        while True:
            await self._outside.clock.sleep(self._outside.options.sweep_s)
            if not self._leads:
                self._sweeper.forget()
                continue
            try:
                await self._sweeper.look()
            except DatabaseUnavailable:
                continue

    async def _look(self) -> None:
        northbound = self._outside.northbound
        leads = await northbound.try_lock()
        self._problem = ""
        if leads is not self._leads:
            self._leads, self._settled_in = leads, False
            await self._outside.journal.write("lead", "leads now" if leads else "stands by now")
            if not leads:
                await self._moves.stop()
        if not leads:
            await northbound.wait_changed(_ELECTION_S)
            return
        nb = await northbound.view()
        if not self._settled_in:
            await self._moves.keep_ended(nb)
            self._settled_in = True
        await self._moves.adopt(nb)
        await self._report_drift(nb)
        await northbound.wait_changed(self._outside.options.watch_s)

    async def _report_drift(self, nb: NbView) -> None:
        for stored in store.readable(nb):
            name = stored.document.spec.name
            if stored.document.migration is not None:
                continue
            now = drifted(stored.document, nb)
            if now != self._drift.get(name, ()):
                self._drift[name] = now
                words = "; ".join(now) or "the rows are as specified again"
                await self._outside.journal.write("drift", words, udn=name)

    async def _lead(self) -> None:
        if not self._leads:
            away = await self._outside.northbound.healthy()
            if away:
                raise DatabaseUnavailable(
                    f"nothing can be changed while the Northbound database is away: {away}"
                )
            raise NotLeader("this replica stands by and only serves reads; ask the leader")

    async def create_udn(self, request: UdnRequest) -> UdnState:
        """See ControllerApi."""
        await self._lead()
        return await self._udns.create(request)

    async def change_udn(self, name: str, request: UdnRequest) -> UdnState:
        """See ControllerApi."""
        await self._lead()
        return await self._udns.change(name, request)

    async def delete_udn(self, name: str) -> None:
        """See ControllerApi."""
        await self._lead()
        await self._udns.delete(name)

    async def udn(self, name: str) -> UdnState:
        """See ControllerApi."""
        return await self._udns.show(name)

    async def udns(self) -> tuple[UdnState, ...]:
        """See ControllerApi."""
        return await self._udns.every()

    async def move_gateway(
        self,
        name: str,
        target: str,
        *,
        overlap_s: float,
        allow_interruption: bool = False,
        idempotency_key: str | None,
    ) -> MigrationRecord:
        """See ControllerApi."""
        return await self.migrate(
            MigrationRequest(
                udn=name,
                target=target,
                binding=Binding.EXTERNAL,
                trigger=Trigger.AUTO,
                overlap_s=overlap_s,
                gateway=True,
                idempotency_key=idempotency_key,
                allow_interruption=allow_interruption,
            )
        )

    async def migrate(self, request: MigrationRequest) -> MigrationRecord:
        """See ControllerApi."""
        await self._lead()
        return await self._moves.accept(request)

    async def dry_run(self, request: MigrationRequest) -> DryRun:
        """See ControllerApi."""
        return await self._moves.dry_run(request)

    async def migration(self, migration_id: str) -> MigrationRecord:
        """See ControllerApi."""
        return await self._moves.find(migration_id)

    async def migrations(self, *, udn: str | None = None) -> tuple[MigrationRecord, ...]:
        """See ControllerApi."""
        return await self._moves.every(udn)

    async def old_migration(self, migration_id: str) -> MigrationRecord:
        """See ControllerApi."""
        return await self._moves.find_old(migration_id)

    async def old_migrations(self, *, udn: str | None = None) -> tuple[MigrationRecord, ...]:
        """See ControllerApi."""
        return await self._outside.journal.all_kept(udn)

    async def switch(self, migration_id: str) -> MigrationRecord:
        """See ControllerApi."""
        await self._lead()
        return await self._moves.switch(migration_id)

    async def cancel(self, migration_id: str) -> MigrationRecord:
        """See ControllerApi."""
        await self._lead()
        return await self._moves.cancel(migration_id)

    async def nodes(self) -> tuple[NodeState, ...]:
        """See ControllerApi."""
        return await nodes(self._outside, self._agents)

    async def bfd(self) -> Mapping[str, str]:
        """See ControllerApi."""
        return await self._outside.northbound.bfd()

    async def set_bfd(self, profile: Profile) -> Mapping[str, str]:
        """See ControllerApi."""
        await self._lead()
        if await self._outside.northbound.set_bfd(VALUES[profile]):
            await self._outside.journal.write("bfd", f"BFD intervals are those of profile {profile.value}")
        return VALUES[profile]

    async def health(self) -> Health:
        """See ControllerApi."""
        northbound = await self._outside.northbound.healthy()
        southbound = await self._outside.southbound.healthy()
        stops = [
            f"{name} database: {words}"
            for name, words in (("Northbound", northbound), ("Southbound", southbound))
            if words
        ]
        if self._problem and not northbound:
            stops.append(f"Northbound database: {self._problem}")
        problems = list(stops)
        if self._outside.journal.problem:
            problems.append(self._outside.journal.problem)
        problems.extend(self._replicator.problems())
        if not stops:
            problems.extend(store.damaged(await self._outside.northbound.view()))
        return Health(not stops, "leader" if self._leads else "standby", tuple(problems))

    def events(self, *, after: int | None = None, follow: bool = True) -> AsyncIterator[JournalEvent]:
        """See ControllerApi."""
        return self._outside.journal.follow(after, follow)
