"""Migrations as people see them: accept, look, order, list; and the tasks that carry them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ovnmig.core import preflight
from ovnmig.core.document import KEPT_ENDED
from ovnmig.core.events import CancelOrdered, Event, NewRequest, SwitchOrdered
from ovnmig.core.legs import router_zones
from ovnmig.core.migration import ENDED, MigrationRecord, MigrationRequest, Phase
from ovnmig.core.preflight import AgentView, World
from ovnmig.core.topology import gateway_names
from ovnmig.core.transfer import ReadinessOrder
from ovnmig.core.udn import Problem, Refused
from ovnmig.core.views import NbView
from ovnmig.engine import store
from ovnmig.engine.perform import AGENT_ERRORS
from ovnmig.engine.protocols import Agents, Conflict, DatabaseUnavailable, DryRun, NotFound
from ovnmig.engine.runner import Fenced, Outside, Runner
from ovnmig.engine.store import Stored

ATTEMPTS = 3
"""How often an accept is tried anew when somebody else wrote the record meanwhile."""


class Moves:
    """All migrations in flight in this process. ``group`` owns their tasks."""

    def __init__(
        self, outside: Outside, agents: Agents, new_id: Callable[[], str], group: asyncio.TaskGroup
    ) -> None:
        self._outside = outside
        self._agents = agents
        self._new_id = new_id
        self._group = group
        self._runners: dict[str, Runner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._rest_until: dict[str, float] = {}
        self._ended: set[str] = set()

    def lock(self, udn: str) -> asyncio.Lock:
        """Held while this process decides anew about a UDN. The epoch guards against other processes."""
        return self._locks.setdefault(udn, asyncio.Lock())

    def in_flight(self, udn: str) -> MigrationRecord | None:
        """The record of the UDN's running migration, newer than the database's (phases that are not written
        down)."""
        runner = self._runners.get(udn)
        return None if runner is None or runner.record.phase in ENDED else runner.record

    async def accept(self, request: MigrationRequest) -> MigrationRecord:
        """Accept a migration; see :class:`ControllerApi`."""
        async with self.lock(request.udn):
            for _ in range(ATTEMPTS):
                known, world, stored = await self._read(request)
                if known is not None:
                    return known
                running = self.in_flight(request.udn) or stored.document.migration
                if running is None or running.phase is Phase.CONVERGING:
                    # Before a running overlap is ended for it: a refused request must change nothing.
                    await self._check(request, world)
                if running is not None:
                    await self._make_room(request.udn)
                    continue
                record = preflight.draft(request, world, self._new_id(), self._outside.clock.now())
                runner = Runner(self._outside, stored, record, self._group)
                try:
                    accepted = await runner.begin()
                except Fenced:
                    continue
                except BaseException:
                    # Also when the caller went away: what may be written is adopted by the supervisor.
                    runner.stop()
                    raise
                self._keep(request.udn, runner)
                return accepted
        raise Conflict(f"UDN {request.udn!r} is being changed by somebody else; ask again")

    async def _read(self, request: MigrationRequest) -> tuple[MigrationRecord | None, World, Stored]:
        nb = await self._outside.northbound.view()
        stored = _stored(nb, request.udn)
        document = stored.document
        world = World(document, nb, await self._outside.southbound.view())
        if request.idempotency_key is None:
            return None, world, stored
        known = (self.in_flight(request.udn), document.migration, *document.ended)
        for record in known:
            if record is not None and record.idempotency_key == request.idempotency_key:
                if (record.target, record.port) != (request.target, request.port):
                    raise Conflict(
                        f"the idempotency key was used for another migration, {record.id}; use a new one"
                    )
                return record, world, stored
        return None, world, stored

    async def _check(self, request: MigrationRequest, world: World) -> str:
        """What the migration would have to wait for at its begin, in words. Raises Refused."""
        record = preflight.draft(request, world, "dry-run", self._outside.clock.now())
        problems = preflight.rows_problems(request, record, world)
        if problems:
            raise Refused(problems)
        answers, grown_at = await self._ask(record, world), world.document.grown_at
        problems = preflight.agent_problems(record, answers, grown_at)
        if problems:
            raise Refused(problems)
        return preflight.awaited_bfd(record, answers, grown_at)

    async def _ask(self, record: MigrationRecord, world: World) -> dict[str, AgentView]:
        named = gateway_names(world.spec)
        zones = router_zones(named.router, world.datapath) if record.moves_gateway else ()
        answers: dict[str, AgentView] = {}

        async def ask(chassis: str) -> None:
            peers = (record.source,) if record.source and chassis != record.source else ()
            order = ReadinessOrder(zones, peers, world.spec.physical_network)
            try:
                node = await self._agents.node(chassis)
                answers[chassis] = AgentView(node, await self._agents.readiness(chassis, order))
            except AGENT_ERRORS as error:
                answers[chassis] = AgentView(problem=str(error) or type(error).__name__)

        async with asyncio.TaskGroup() as group:
            for chassis in preflight.agents_needed(record):
                group.create_task(ask(chassis))
        return answers

    async def _make_room(self, udn: str) -> None:
        """End the overlap of the UDN's last migration, or refuse. Raises Conflict."""
        await self._adopt(udn)
        runner = self._runners.get(udn)
        if runner is None:
            return
        try:
            answer, _ = await runner.order(NewRequest())
        except Fenced:
            return
        if not answer.accepted:
            raise Conflict(answer.words)
        await runner.ended.wait()
        self._runners.pop(udn, None)

    async def dry_run(self, request: MigrationRequest) -> DryRun:
        """The preflight alone."""
        nb = await self._outside.northbound.view()
        world = World(_stored(nb, request.udn).document, nb, await self._outside.southbound.view())
        record = preflight.draft(request, world, "dry-run", self._outside.clock.now())
        plan = preflight.plan_words(record)
        running = self.in_flight(request.udn) or world.document.migration
        if running is not None and running.phase is not Phase.CONVERGING:
            words = f"migration {running.id} of this UDN is {running.phase.value}; wait, or cancel it"
            return DryRun((Problem("in-flight", words, conflict=True),), plan)
        try:
            awaited = await self._check(request, world)
        except Refused as refused:
            return DryRun(refused.problems, plan)
        return DryRun((), preflight.plan_words(record, awaited))

    async def find(self, migration_id: str) -> MigrationRecord:
        """A migration, in flight or among the ended ones kept in the record rows. Raises NotFound."""
        for record in await self.every(None):
            if record.id == migration_id:
                return record
        raise NotFound(f"no migration {migration_id!r} in flight or among the last {KEPT_ENDED} of a UDN")

    async def find_old(self, migration_id: str) -> MigrationRecord:
        """An ended migration from the history. Raises NotFound."""
        record = await self._outside.journal.kept(migration_id)
        if record is None:
            raise NotFound(
                f"no migration {migration_id!r}: the record rows keep the last {KEPT_ENDED} of each UDN, and "
                "this controller's history does not know it; if it is an old one, the history file was lost, "
                "or another controller led then and has it in its own"
            )
        return record

    async def keep_ended(self, nb: NbView) -> None:
        """Take over into the history what the record rows hold: a predecessor may have died before it did."""
        for stored in store.readable(nb):
            for record in reversed(stored.document.ended):
                await self._outside.journal.keep(record)

    async def every(self, udn: str | None) -> tuple[MigrationRecord, ...]:
        """All that are known, newest first. Raises NotFound for an unknown UDN."""
        nb = await self._outside.northbound.view()
        if udn is not None:
            _stored(nb, udn)
        found: dict[str, MigrationRecord] = {}
        for stored in store.readable(nb):
            document = stored.document
            if udn not in (None, document.spec.name):
                continue
            running = self.in_flight(document.spec.name)
            for record in (*document.ended, document.migration, running):
                if record is not None and (record.id not in found or found[record.id].phase not in ENDED):
                    found[record.id] = record
        return tuple(sorted(found.values(), key=lambda record: (-record.created_at, record.id)))

    async def switch(self, migration_id: str) -> MigrationRecord:
        """Order the switch. Raises NotFound, Conflict, DatabaseUnavailable."""
        return await self._order(migration_id, SwitchOrdered())

    async def cancel(self, migration_id: str) -> MigrationRecord:
        """Order the cancel. Raises NotFound, Conflict, DatabaseUnavailable."""
        return await self._order(migration_id, CancelOrdered())

    async def _order(self, migration_id: str, event: Event) -> MigrationRecord:
        try:
            record = await self.find(migration_id)
        except NotFound:
            record = await self.find_old(migration_id)
        if record.phase in ENDED:
            raise Conflict(f"migration {migration_id} has ended: {record.phase.value}")
        async with self.lock(record.udn):
            await self._adopt(record.udn)
        runner = self._runners.get(record.udn)
        if runner is None or runner.record.id != migration_id:
            raise Conflict(
                f"migration {migration_id} is not in this controller's hands at the moment; ask again"
            )
        try:
            answer, record = await runner.order(event)
        except Fenced as error:
            raise Conflict(str(error)) from error
        if answer.unavailable:
            raise DatabaseUnavailable(answer.words)
        if not answer.accepted:
            raise Conflict(answer.words)
        return record

    async def adopt(self, nb: NbView) -> None:
        """Take every migration in flight that nobody here carries out: after a start, a new lead, a fenced
        task."""
        for stored in store.readable(nb):
            name = stored.document.spec.name
            if stored.document.migration is not None and not self.lock(name).locked():
                async with self.lock(name):
                    await self._adopt(name)

    async def _adopt(self, udn: str) -> None:
        """The same for one UDN; its lock is held. What ended here meanwhile is not taken up again from an old
        picture."""
        now = self._outside.clock.now()
        nb = await self._outside.northbound.view()
        stored = store.find(nb, udn)
        record = stored.document.migration if stored is not None else None
        if stored is None or record is None or udn in self._runners or record.id in self._ended:
            return
        if self._rest_until.get(udn, now) > now:
            return
        # SB holds the agents' addresses. A deadline may have passed long ago, and without SB the end would be
        # written with transfers still running.
        await self._outside.southbound.view()
        runner = Runner(self._outside, stored, record, self._group)
        try:
            await runner.recover(nb.nb_cfg)
        except BaseException:
            runner.stop()
            raise
        self._keep(udn, runner)
        await self._outside.journal.write(
            "resumed", f"resumed in phase {record.phase.value}", udn=udn, migration=record.id
        )

    def _keep(self, udn: str, runner: Runner) -> None:
        self._runners[udn] = runner
        self._tasks[udn] = self._group.create_task(self._run(udn, runner))

    async def _run(self, udn: str, runner: Runner) -> None:
        """A runner's task. A defect in it rests a while and is then resumed from the database."""
        try:
            await runner.main()
        except Fenced as error:
            await self._outside.journal.write("fenced", str(error), udn=udn, migration=runner.record.id)
        except Exception as error:  # One migration's defect must not stop the others.
            self._rest_until[udn] = self._outside.clock.now() + self._outside.options.rest_s
            self._outside.counters.effect_failed(type(error).__name__)
            await self._outside.journal.write(
                "defect",
                f"{type(error).__name__}: {error}",
                udn=udn,
                migration=runner.record.id,
                details={"story": list(runner.story)},
            )
        finally:
            if runner.record.phase in ENDED:
                self._ended.add(runner.record.id)
            if self._runners.get(udn) is runner:
                del self._runners[udn]

    async def stop(self) -> None:
        """Let go of every migration, as when the lead is lost. Nothing is rolled back: whoever leads next
        resumes."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for runner in self._runners.values():
            runner.stop()  # A task that never began has no end of its own.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._runners.clear()


def _stored(nb: NbView, udn: str) -> Stored:
    stored = store.find(nb, udn)
    if stored is None:
        known = ", ".join(repr(row.udn) for row in nb.records[:10]) or "none"
        raise NotFound(f"no UDN {udn!r} (there are: {known})")
    return stored
