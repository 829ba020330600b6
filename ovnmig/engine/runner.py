"""One migration in flight: events from a queue, one at a time; commits before acting; orders as tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ovnmig.core import changes, judge
from ovnmig.core.advance import advance, resume, start
from ovnmig.core.deadlines import deadline
from ovnmig.core.effects import Answer, Commit, Effect, WatchArrival
from ovnmig.core.events import CommitFailed, Committed, DeadlinePassed, Event, Recovered, VmArrived
from ovnmig.core.invariants import step_problems
from ovnmig.core.migration import ENDED, MigrationRecord
from ovnmig.core.rows import EpochConflict
from ovnmig.core.run import Run, Step
from ovnmig.core.states import ENDED_STATES
from ovnmig.core.topology import gateway_names
from ovnmig.core.udn import Refused
from ovnmig.engine.counters import Counters
from ovnmig.engine.journal import Journal
from ovnmig.engine.options import EngineOptions
from ovnmig.engine.perform import Job, Performer
from ovnmig.engine.protocols import Clock, DatabaseUnavailable, Northbound, Southbound
from ovnmig.engine.store import Stored

ARRIVAL_WAIT_S = 30.0
RETRY_S = 1.0


class Fenced(Exception):
    """Somebody else has written the UDN's record: this task must not act on what it remembers."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything a runner acts on."""

    northbound: Northbound
    southbound: Southbound
    performer: Performer
    journal: Journal
    clock: Clock
    options: EngineOptions
    counters: Counters


@dataclass(frozen=True, slots=True)
class _Item:
    """An event for the queue. ``serial``: the state it belongs to (``None``: any); ``reply`` gets the
    Answer."""

    event: Event
    serial: int | None = None
    timer: int | None = None
    reply: asyncio.Future[Answer] | None = None


class Runner:
    """Owns a UDN's record while its migration is in flight; nobody else in this process writes it
    meanwhile."""

    def __init__(
        self, outside: Outside, stored: Stored, record: MigrationRecord, group: asyncio.TaskGroup
    ) -> None:
        self._outside = outside
        self._stored = stored
        self._router = gateway_names(stored.document.spec).router
        self._run = resume(record, self._router)
        self._group = group
        self._queue: asyncio.Queue[_Item | Exception] = asyncio.Queue()
        self._orders: set[asyncio.Task[None]] = set()
        self._lasting: set[asyncio.Task[None]] = set()
        self._watching = False
        self._serial = 0
        self._timer = 0
        self._due: float | None = None
        self._refused: Refused | None = None
        self._waiting: set[asyncio.Future[Answer]] = set()
        self.ended = asyncio.Event()

    @property
    def record(self) -> MigrationRecord:
        """The record as it stands now."""
        return self._run.record

    @property
    def story(self) -> tuple[str, ...]:
        """The last transitions in words."""
        return self._run.story

    async def begin(self) -> MigrationRecord:
        """Write the prepare transaction. Returns once it is in the database. Raises Fenced,
        DatabaseUnavailable."""
        step = start(self._run.record, self._router, self._outside.clock.now())
        self._run = step.run
        await self._act(step, None)
        if self._run.state in ENDED_STATES:
            raise self._refused or DatabaseUnavailable(self._run.record.reason)
        return self._run.record

    async def recover(self, nb_cfg: int) -> None:
        """Go on from the record in the database, with no memory. Raises Fenced."""
        await self._handle(_Item(Recovered(nb_cfg)))

    async def order(self, event: Event) -> tuple[Answer, MigrationRecord]:
        """Hand in a person's order; its answer, once what it promises is written down. Raises Fenced."""
        if self.ended.is_set():
            raise Fenced("the migration has just ended; look again")
        reply: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.add(reply)
        self._queue.put_nowait(_Item(event, reply=reply))
        try:
            answer = await reply
        finally:
            self._waiting.discard(reply)
        return answer, self._run.record

    async def main(self) -> None:
        """Handle events until the migration has ended. Raises Fenced, or whatever a defect raises."""
        try:
            while self._run.state not in ENDED_STATES:
                item = await self._queue.get()
                if isinstance(item, Exception):
                    raise item
                await self._handle(item)
        finally:
            self.stop()

    def stop(self) -> None:
        """Withdraw all orders and let go. Harmless when repeated."""
        for task in (*self._orders, *self._lasting):
            task.cancel()
        for reply in tuple(self._waiting):
            if not reply.done():
                reply.set_exception(
                    Fenced("the migration is not in this controller's hands any more; ask again")
                )
        self.ended.set()

    async def _handle(self, item: _Item) -> None:
        if item.serial not in (None, self._serial) or item.timer not in (None, self._timer):
            return  # The answer to an order of a state that was left: withdrawn.
        before = self._run
        step = advance(before, item.event, self._outside.clock.now())
        self._run = step.run
        for words in step_problems(before, item.event, step):
            self._outside.counters.invariant_broken(words)
            await self._write("invariant", words)
        if step.run.state is not before.state:
            self._serial += 1
            self._due = None
            while self._orders:
                self._orders.pop().cancel()
        await self._note(before, step)
        await self._act(step, item.reply)

    async def _note(self, before: Run, step: Step) -> None:
        after = step.run.record
        if after.phase is not before.record.phase:
            self._outside.counters.migration_changed(after)
            await self._write("phase", f"{after.phase.value}: {step.says}", _details(before.record, after))
            if after.phase in ENDED:
                await self._outside.journal.keep(after)
        for words in after.warnings[len(before.record.warnings) :]:
            await self._write("warning", words)

    async def _act(self, step: Step, reply: asyncio.Future[Answer] | None) -> None:
        for effect in step.effects:
            match effect:
                case Commit():
                    await self._handle(_Item(await self._commit(effect), reply=reply))
                case Answer():
                    if reply is not None and not reply.done():
                        reply.set_result(effect)
                case WatchArrival():
                    if not self._watching:
                        self._watching = True
                        self._spawn(self._lasting, self._watch_arrival)
                case _:
                    self._order(effect)
        self._arm_timer()

    async def _commit(self, effect: Commit) -> Event:
        planned = changes.plan(effect.kind, self._stored.document, effect.record, self._stored.epoch)
        try:
            committed = await self._outside.northbound.apply(planned.change)
        except EpochConflict as error:
            raise Fenced(str(error)) from error
        except (DatabaseUnavailable, Refused) as error:
            self._refused = error if isinstance(error, Refused) else None
            self._outside.counters.effect_failed("Commit")
            return CommitFailed(str(error))
        self._stored = Stored(planned.document, committed.epoch)
        return Committed(effect.record, committed.nb_cfg)

    def _order(self, effect: Effect) -> None:
        serial = self._serial

        async def carry_out() -> None:
            delay_s: float = getattr(effect, "after_s", 0.0)
            if delay_s > 0:
                await self._outside.clock.sleep(delay_s)
            job = Job(effect, self._run.record, self._stored.document.spec, self._stored.epoch)
            event = await self._outside.performer.perform(job)
            if getattr(event, "problem", ""):
                self._outside.counters.effect_failed(type(effect).__name__)
            self._queue.put_nowait(_Item(event, serial=serial))

        self._spawn(self._orders, carry_out)

    def _spawn(self, keep: set[asyncio.Task[None]], work: Callable[[], Awaitable[None]]) -> None:
        async def guarded() -> None:
            try:
                await work()
            except Exception as error:  # A defect ends the migration's task, not the controller.
                self._queue.put_nowait(error)

        task = self._group.create_task(guarded())
        keep.add(task)
        task.add_done_callback(keep.discard)

    def _arm_timer(self) -> None:
        due = deadline(self._run, self._outside.options.limits)
        if due == self._due:
            return
        self._due = due
        self._timer += 1
        timer = self._timer
        if due is None:
            return

        async def wait() -> None:
            await self._outside.clock.sleep(max(0.0, due - self._outside.clock.now()))
            self._queue.put_nowait(_Item(DeadlinePassed(), timer=timer))

        self._spawn(self._orders, wait)

    async def _watch_arrival(self) -> None:
        record = self._run.record
        port, target = record.port, record.target
        if port is None:
            return
        while True:
            try:
                there = await self._outside.southbound.wait_until(
                    lambda view: judge.arrived(view.binding(port), target), ARRIVAL_WAIT_S
                )
            except DatabaseUnavailable:
                await self._outside.clock.sleep(RETRY_S)
                continue
            if there:
                self._queue.put_nowait(_Item(VmArrived()))
                return

    async def _write(self, kind: str, message: str, details: Mapping[str, object] | None = None) -> None:
        record = self._run.record
        await self._outside.journal.write(kind, message, udn=record.udn, migration=record.id, details=details)


def _details(before: MigrationRecord, after: MigrationRecord) -> Mapping[str, object]:
    counts = after.counts
    return {
        "from": before.phase.value,
        "to": after.phase.value,
        "source": after.source,
        "target": after.target,
        "port": after.port or "",
        "reason": after.reason,
        "seconds": round(after.phase_since - before.phase_since, 6),
        "entries": {
            "read": counts.read,
            "created": counts.created,
            "identical": counts.identical,
            "replaced": counts.replaced,
            "lost": counts.lost,
            "refused": dict(counts.refused),
        },
    }
