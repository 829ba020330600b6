from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ovnmig.core.deadlines import deadline
from ovnmig.core.effects import (
    Arm,
    Commit,
    Copy,
    Effect,
    EndTransfers,
    Finish,
    ObserveOwner,
    ObserveTarget,
    Overlap,
)
from ovnmig.core.events import (
    Armed,
    CancelOrdered,
    CommitFailed,
    CopyObserved,
    DeadlinePassed,
    Event,
    Finished,
    NewRequest,
    OverlapObserved,
    OwnerObserved,
    SwitchOrdered,
    TargetObserved,
    TransfersEnded,
    VmArrived,
)
from ovnmig.core.invariants import record_problems, run_problems
from ovnmig.core.legs import forward_legs
from ovnmig.core.migration import TransferMode, Trigger
from ovnmig.core.states import ENDED_STATES
from ovnmig.core.transfer import TransferState
from tests.core.machine import LIMITS, Driver, a_record, ready_target, status

LEG_STATES = st.sampled_from([None, *TransferState])


class Migrations(RuleBasedStateMachine):
    """Any order of answers, orders, deadlines and crashes; the driver checks the invariants after every
    step."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(replies=lambda _driver, effect: self.answer(effect))
        self.draw: st.DataObject | None = None
        self.failing = False
        self.switches = 0

    @initialize(
        gateway=st.booleans(),
        port=st.sampled_from([None, "vm1"]),
        trigger=st.sampled_from(Trigger),
        transfer=st.sampled_from(TransferMode),
        port_source=st.sampled_from(["A", "C"]),
    )
    def begin(
        self, gateway: bool, port: str | None, trigger: Trigger, transfer: TransferMode, port_source: str
    ) -> None:
        self.driver.begin(
            a_record(
                moves_gateway=gateway or port is None,
                port=port,
                port_source=port_source if port else "",
                trigger=trigger,
                transfer=transfer,
            )
        )

    def ended(self) -> bool:
        return self.driver.run is not None and self.driver.run.state in ENDED_STATES

    def choose(self, options: st.SearchStrategy[Event]) -> Event:
        assert self.draw is not None
        return self.draw.draw(options)

    def answer(self, effect: Effect) -> Event | None:
        """Any answer the world may give to an order."""
        run = self.driver.run
        assert run is not None
        record = run.record
        statuses = st.fixed_dictionaries(
            {
                leg: LEG_STATES.map(lambda s, leg=leg: s and status(leg, s, "why"))  # type: ignore[misc]
                for leg in forward_legs(record)
            }
        )
        problem = st.sampled_from(["", "unreachable"])
        owners = st.sampled_from(["", "A", "B"])
        match effect:
            case Commit():
                return CommitFailed("not connected") if self.failing else None
            case ObserveTarget():
                good = TargetObserved(record.nb_cfg, ready_target(record))
                return self.choose(st.sampled_from([good, good, TargetObserved(0, None, "unreachable")]))
            case Copy():
                return self.choose(st.builds(CopyObserved, statuses, st.booleans(), problem))
            case Arm():
                return self.choose(st.builds(Armed, problem))
            case Finish():
                return self.choose(st.builds(Finished, statuses, problem))
            case ObserveOwner():
                return self.choose(st.builds(OwnerObserved, owners, st.booleans()))
            case Overlap():
                return self.choose(st.builds(OverlapObserved, owners, statuses, problem))
            case EndTransfers():
                there = st.sampled_from([None, False, True])
                return self.choose(st.builds(TransfersEnded, owners, there, problem))
        raise AssertionError(effect)

    @precondition(lambda self: bool(self.driver.pending))
    @rule(data=st.data(), failing=st.booleans())
    def an_order_is_answered(self, data: st.DataObject, failing: bool) -> None:
        self.draw, self.failing = data, failing
        at, effect = self.driver.pending.popleft()
        self.driver.now = max(self.driver.now, at) + 0.001
        event = self.answer(effect)
        assert event is not None
        self.driver.feed(event)

    @rule(failing=st.booleans(), order=st.sampled_from([SwitchOrdered(), CancelOrdered(), NewRequest()]))
    def a_person_orders_something_and_is_answered(self, failing: bool, order: Event) -> None:
        self.failing = failing
        before = len(self.driver.answers)
        ending = self.driver.run is not None and self.driver.run.state.value
        self.driver.feed(order)
        silent = isinstance(order, NewRequest) and ending == "converging"
        assert len(self.driver.answers) == before + (0 if silent else 1)

    @precondition(lambda self: self.driver.watching)
    @rule()
    def the_vm_arrives(self) -> None:
        self.driver.watching = False
        self.driver.feed(VmArrived())

    @precondition(lambda self: self.driver.run is not None and deadline(self.driver.run, LIMITS) is not None)
    @rule(failing=st.booleans())
    def a_deadline_passes(self, failing: bool) -> None:
        assert self.driver.run is not None
        self.failing = failing
        due = deadline(self.driver.run, LIMITS)
        assert due is not None
        self.driver.now = max(self.driver.now, due)
        self.driver.feed(DeadlinePassed())

    @precondition(lambda self: not self.ended())
    @rule()
    def the_controller_dies_and_another_reads_the_record(self) -> None:
        self.failing = False
        self.driver.crash_and_resume(self.driver.saved[-1])

    @invariant()
    def what_is_written_down_is_sound(self) -> None:
        for record in self.driver.saved:
            assert record_problems(record) == ()
        switched = [record.switched_at for record in self.driver.saved if record.switched_at is not None]
        assert len(set(switched)) <= 1

    @invariant()
    def somebody_always_knows_what_comes_next(self) -> None:
        """Not ended: an order is out, a deadline runs, or only a person's order is awaited."""
        run = self.driver.run
        if run is None or run.state in ENDED_STATES:
            return
        waiting = run.state.value == "ready" and run.record.trigger is Trigger.MANUAL
        assert self.driver.pending or deadline(run, LIMITS) is not None or waiting

    def teardown(self) -> None:
        """From wherever it stands, a kind world brings it to an end with all invariants."""
        if self.driver.run is None:
            return
        self.failing = False
        self.driver.replies = None
        self.driver.arrives = True
        for _ in range(400):
            assert not run_problems(self.driver.run)
            if self.driver.run.state in ENDED_STATES:
                return
            waits = self.driver.run.state.value == "ready" and not self.driver.run.record.switch_ordered
            if waits and self.driver.run.record.trigger is Trigger.MANUAL:
                self.driver.feed(SwitchOrdered())
            elif not self.driver.tick():
                break
        raise AssertionError(self.driver.run.story)


Migrations.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMigrations = Migrations.TestCase
