"""Samples and a pure driver for tests of the migration machine: the outside world as answers to effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from ovnmig.core.advance import advance, resume, start
from ovnmig.core.deadlines import Limits, deadline
from ovnmig.core.effects import (
    Answer,
    Arm,
    Commit,
    Copy,
    Effect,
    EndTransfers,
    Finish,
    ObserveOwner,
    ObserveTarget,
    Overlap,
    WatchArrival,
)
from ovnmig.core.events import (
    Armed,
    CancelOrdered,
    CommitFailed,
    Committed,
    CopyObserved,
    DeadlinePassed,
    Event,
    Finished,
    NewRequest,
    OverlapObserved,
    OwnerObserved,
    Recovered,
    SwitchOrdered,
    TargetObserved,
    TransfersEnded,
    VmArrived,
)
from ovnmig.core.invariants import run_problems, step_problems
from ovnmig.core.legs import Leg, forward_legs, transfer_id
from ovnmig.core.migration import Binding, MigrationRecord, Phase, TransferMode, Trigger
from ovnmig.core.run import Run, Step
from ovnmig.core.states import ENDED_STATES, PHASE_OF, SWITCHED_STATES, State
from ovnmig.core.transfer import Counts, Readiness, TransferState, TransferStatus
from ovnmig.core.udn import Member

ROUTER = "ovnmig-blue"
ZONES = {"snat:ovnmig-blue": 32801, "dnat:ovnmig-blue": 7}
LIMITS = Limits()


def a_record(**changes: object) -> MigrationRecord:
    """A follow migration of vm1 and its gateway, A -> B, as the preflight leaves it."""
    record = MigrationRecord(
        id="m1",
        udn="blue",
        target="B",
        source="A",
        port="vm1",
        port_source="A",
        moves_gateway=True,
        binding=Binding.OVNMIG,
        trigger=Trigger.AUTO,
        transfer=TransferMode.FULL,
        overlap_s=60.0,
        phase=Phase.REQUESTED,
        created_at=1000.0,
        phase_since=1000.0,
        members_before=(Member(20, "A"), Member(10, "C")),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def in_state(state: State, record: MigrationRecord, misses: int = 0) -> Run:
    """A run put into ``state`` with a record that agrees with it."""
    phase = PHASE_OF[state] or record.phase
    record = replace(record, phase=phase)
    if state in SWITCHED_STATES or state is State.COMPLETED:
        record = replace(record, switched_at=1010.0)
    if state in ENDED_STATES:
        record = replace(record, ended_at=1100.0, reason=record.reason or "for a test")
    return Run(record, state, ROUTER, misses)


def status(leg: Leg, state: TransferState = TransferState.IN_STEP, reason: str = "") -> TransferStatus:
    """An agent's answer about a leg."""
    return TransferStatus(transfer_id(a_record(), leg), state, Counts(read=3, created=3), reason=reason)


def ready_target(record: MigrationRecord) -> Readiness:
    """A target that can take traffic."""
    return Readiness(zones=ZONES, bfd={record.source: "up"})


def record_variants() -> Iterator[MigrationRecord]:
    """Records that differ in everything a condition looks at."""
    flags = product(
        (True, False), (None, "vm1"), tuple(Trigger), tuple(TransferMode), (False, True), (False, True)
    )
    for gateway, port, trigger, transfer, arrived, ordered in flags:
        yield a_record(
            moves_gateway=gateway,
            port=port,
            port_source="A" if port else "",
            trigger=trigger,
            transfer=transfer,
            arrived=arrived and port is not None,
            switch_ordered=ordered,
            nb_cfg=5,
        )


def event_variants(record: MigrationRecord) -> Iterator[Event]:
    """For every type of event, the answers a condition distinguishes."""
    yield Committed(record, 5)
    yield Committed(replace(record, phase=Phase.FAILED, reason="x", ended_at=1.0), 5)
    yield from OUTSIDE_EVENTS


def _outside_events() -> Iterator[Event]:
    yield CommitFailed("not connected")
    yield Recovered(9)
    good = ready_target(a_record())
    yield TargetObserved(5, good)
    yield TargetObserved(4, good)
    yield TargetObserved(5, replace(good, zones={}))
    yield TargetObserved(5, replace(good, bfd={"A": "down"}))
    yield TargetObserved(5, replace(good, uplink="no bridge"))
    yield TargetObserved(5, None, "connection refused")
    states = (None, TransferState.COPYING, TransferState.IN_STEP, TransferState.FINAL, TransferState.FAILED)
    for gateway, port, there in product(states, states, (False, True)):
        statuses = {
            Leg.GATEWAY: None if gateway is None else status(Leg.GATEWAY, gateway),
            Leg.PORT: None if port is None else status(Leg.PORT, port, "zone gone"),
        }
        yield CopyObserved(statuses, there)
        yield Finished(statuses)
    yield CopyObserved(problem="unreachable")
    yield CopyObserved(away="connection refused")
    yield Finished(problem="unreachable")
    yield Armed()
    yield Armed("unreachable")
    for owner, there in product(("", "A", "B"), (False, True)):
        yield OwnerObserved(owner, there)
        yield TransfersEnded(owner, there)
    yield TransfersEnded("", None, "agent of A unreachable")
    yield OverlapObserved("B", {Leg.GATEWAY: status(Leg.GATEWAY), Leg.BACK: status(Leg.BACK)})
    yield OverlapObserved("", {}, "agent of B unreachable")
    yield VmArrived()
    yield SwitchOrdered()
    yield CancelOrdered()
    yield NewRequest()
    yield DeadlinePassed()


OUTSIDE_EVENTS = tuple(_outside_events())
"""All but the answers of a commit, which carry a record."""


Script = Callable[["Driver", Effect], Event | None]


@dataclass
class Driver:
    """Plays the engine without I/O: commits first, withdraws the orders of a state that was left, fires
    deadlines.

    ``replies`` may answer an effect in place of the kind world of :meth:`kind`; ``saved`` holds every record
    written.
    """

    now: float = 1000.0
    replies: Script | None = None
    run: Run | None = None
    saved: list[MigrationRecord] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    pending: deque[tuple[float, Effect]] = field(default_factory=deque)
    watching: bool = False
    arrives: bool = True
    events: list[str] = field(default_factory=list)
    nb_cfg: int = 5

    def begin(self, record: MigrationRecord) -> None:
        """Start a migration."""
        step = start(record, ROUTER, self.now)
        self.run = step.run
        self._take(step.effects)

    def crash_and_resume(self, record: MigrationRecord) -> None:
        """Forget everything but what is written down."""
        self.run = resume(record, ROUTER)
        self.pending.clear()
        self.watching = False
        self.feed(Recovered(self.nb_cfg))

    def feed(self, event: Event) -> Step:
        """One event; its commits are answered before this returns."""
        assert self.run is not None
        before = self.run
        step = advance(before, event, self.now)
        problems = step_problems(before, event, step)
        assert not problems, (problems, step.run.story)
        self.events.append(type(event).__name__)
        self.run = step.run
        if step.run.state is not before.state:
            self.pending.clear()
        self._take(step.effects)
        return step

    def _take(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Commit):
                reply = self.replies(self, effect) if self.replies else None
                if reply is None:
                    reply = Committed(effect.record, self.nb_cfg)
                if isinstance(reply, Committed):
                    self.saved.append(effect.record)
                self.feed(reply)
            elif isinstance(effect, Answer):
                self.answers.append(effect)
            elif isinstance(effect, WatchArrival):
                self.watching = True
            else:
                self.pending.append((self.now + effect.after_s, effect))

    def kind(self, effect: Effect) -> Event:
        """The answer of a world in which all goes well."""
        assert self.run is not None
        record = self.run.record
        copied = {leg: status(leg) for leg in forward_legs(record)}
        match effect:
            case ObserveTarget():
                return TargetObserved(record.nb_cfg, ready_target(record))
            case Copy():
                return CopyObserved(copied)
            case Arm():
                return Armed()
            case Finish():
                return Finished({leg: status(leg, TransferState.FINAL) for leg in forward_legs(record)})
            case ObserveOwner():
                return OwnerObserved(record.target, vm_on_target=True)
            case Overlap():
                return OverlapObserved(record.target, copied)
            case EndTransfers():
                switched = record.switched_at is not None
                return TransfersEnded(record.target if switched else record.source, switched)
        raise AssertionError(effect)

    def tick(self) -> bool:
        """The next thing that happens: the VM's arrival once ready, an answer, or a deadline. False: nothing
        left."""
        assert self.run is not None
        if self.run.state in ENDED_STATES:
            return False
        if self.watching and self.arrives and self.run.state is State.READY:
            self.watching = False
            self.feed(VmArrived())
            return True
        due = deadline(self.run, LIMITS)
        if self.pending and (due is None or self.pending[0][0] <= due):
            at, effect = self.pending.popleft()
            self.now = max(self.now, at) + 0.001
            reply = self.replies(self, effect) if self.replies else None
            self.feed(reply if reply is not None else self.kind(effect))
            return True
        if due is not None:
            self.now = max(self.now, due)
            self.feed(DeadlinePassed())
            return True
        return False

    def finish(self, limit: int = 2000) -> MigrationRecord:
        """Run to the end; the record then. Fails when it does not end."""
        for _ in range(limit):
            if not self.tick():
                break
        assert self.run is not None
        assert not run_problems(self.run)
        assert self.run.state in ENDED_STATES, self.run.story
        return self.run.record

    def until(self, state: State, limit: int = 200) -> Run:
        """Run until ``state`` is reached."""
        for _ in range(limit):
            assert self.run is not None
            if self.run.state is state:
                return self.run
            assert self.tick(), self.run.story
        raise AssertionError(f"{state} was not reached")


def begun(**changes: object) -> Driver:
    """A driver with a migration under way; ``changes`` are fields of its record."""
    driver = Driver()
    driver.begin(a_record(**changes))
    return driver


def phases(record: MigrationRecord) -> list[str]:
    """The phases it went through."""
    return [phase.value for phase, _ in record.phase_times]
