"""The controller dies in any phase; a new one on the same databases and agents finishes or rolls back."""

from __future__ import annotations

import asyncio

import pytest

from ovnmig.core.migration import MigrationRequest, Phase, TransferMode, Trigger
from ovnmig.core.transfer import TransferState
from ovnmig.core.udn import Policy
from ovnmig.engine.protocols import Conflict, DatabaseUnavailable
from tests.engine.world import Running, World, a_request, a_udn

KINDS: dict[str, MigrationRequest] = {
    "follow": a_request(overlap_s=2.0),
    "manual": a_request(overlap_s=2.0, trigger=Trigger.MANUAL),
    "without transfer": a_request(overlap_s=2.0, transfer=TransferMode.NONE),
    "by hand": MigrationRequest("blue", "B", gateway=True, overlap_s=2.0),
    "pinned": a_request(overlap_s=2.0, gateway=False),
}


async def drive(one: Running, ident: str, request: MigrationRequest, turns: int) -> tuple[Phase, int]:
    """Play the VM and the operator for so many turns of the clock; the phase then, and turns left over."""
    world = one.world
    while turns:
        record = await one.api.migration(ident)
        if record.phase in (Phase.COMPLETED, Phase.ROLLED_BACK, Phase.FAILED):
            return record.phase, turns
        if record.phase is Phase.READY and request.trigger is Trigger.MANUAL and not record.switch_ordered:
            await one.api.switch(ident)
        elif record.phase is Phase.READY and request.port and not record.arrived:
            world.arrive(request.port, "B")
        elif record.switched_at is not None and request.port:
            world.settle_binding(request.port, "B")
        await world.clock.turn()
        turns -= 1
    return (await one.api.migration(ident)).phase, 0


async def life(request: MigrationRequest, dies_after: int | None) -> tuple[World, Phase, int]:
    """A migration whose controller dies after so many turns and is started again ten seconds later."""
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        ident = (await one.api.migrate(request)).id
        whole = 500
        phase, left = await drive(one, ident, request, whole if dies_after is None else dies_after)
        if dies_after is None:
            return world, phase, whole - left
    await world.clock.pass_time(10.0)
    async with world.controller("two") as two:
        phase, _ = await drive(two, ident, request, 500)
    return world, phase, 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_controller_killed_at_any_turn_is_followed_by_one_that_completes(kind: str) -> None:
    _, phase, turns = await life(KINDS[kind], None)
    assert phase is Phase.COMPLETED
    for dies_after in range(turns):
        world, phase, _ = await life(KINDS[kind], dies_after)
        assert phase is Phase.COMPLETED, (dies_after, world.kinds())
        assert world.owner() == ("A" if kind == "pinned" else "B")
        effects = [kind for kind in world.nb.effects()[1:] if kind != "record"]
        assert len(effects) <= 3, effects
        assert all(not agent.transfers and not agent.armed for agent in world.agents.nodes.values())
        assert "invariant" not in {event.kind for event in world.history.events}


@pytest.mark.parametrize("rounds", range(0, 24, 2))
async def test_a_controller_killed_between_any_two_steps_of_the_switch_is_followed_by_one_that_completes(
    rounds: int,
) -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(overlap_s=2.0))
        await one.until(record.id, "ready")
        world.arrive("vm1", "B")
        for _ in range(rounds):
            await asyncio.sleep(0)
    async with world.controller("two") as two:
        done = await two.until(record.id, "completed")
    assert done.nb_transactions == 3
    assert world.owner() == "B"
    assert "invariant" not in {event.kind for event in world.history.events}


@pytest.mark.parametrize("phase", ["preparing", "copying", "ready", "switching", "converging"])
async def test_a_controller_killed_in_a_phase_is_followed_by_one_that_finishes(phase: str) -> None:
    world = World()
    if phase == "preparing":
        world.agents.nodes["B"].bfd["A"] = "init"
    if phase == "copying":
        world.agents.nodes["A"].copy_state = TransferState.COPYING
    async with world.controller() as one:
        await one.api.create_udn(a_udn(chassis=("A", "C", "B")))
        record = await one.api.migrate(a_request())
        if phase in ("switching", "converging"):
            await one.until(record.id, "ready")
            world.claims = phase == "converging"
            world.arrive("vm1", "B")
        await one.until(record.id, phase)
    world.agents.nodes["B"].bfd["A"] = "up"
    world.agents.nodes["A"].copy_state = TransferState.IN_STEP
    await world.clock.pass_time(3.0)
    async with world.controller("two") as two:
        if phase not in ("switching", "converging"):
            await two.until(record.id, "ready")
            world.arrive("vm1", "B")
        elif phase == "switching":
            world.sb.bind("cr-ovnmig-blue-ext", "B")
        done = await two.until(record.id, "completed")
    assert done.nb_transactions == 3
    assert world.owner() == "B"


async def test_a_controller_killed_while_rolling_back_is_followed_by_one_that_puts_the_rows_back() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn(chassis=("A", "C", "B")))
        before = world.nb.members("blue")
        record = await one.api.migrate(a_request())
        await one.until(record.id, "ready")
        world.agents.nodes["A"].hangs = True
        await one.api.cancel(record.id)
    world.agents.nodes["A"].hangs = False
    async with world.controller("two") as two:
        done = await two.until(record.id, "rolled-back")
    assert done.reason == "cancelled"
    assert world.nb.members("blue") == before
    assert world.nb.ports["vm1"] == {}


async def test_a_controller_killed_between_the_switch_and_its_answer_does_not_switch_twice() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        await one.until(record.id, "ready")
        world.nb.fail_next = [DatabaseUnavailable("time-out")]
        world.nb.lost_answer = True
        world.arrive("vm1", "B")
        done = await one.until(record.id, "completed")
    assert done.nb_transactions == 3
    assert world.nb.effects().count("rows and record") == 3  # the creation, the switch and the close
    assert "fenced" in {event.kind for event in world.history.events}


async def test_agents_that_lost_their_memory_with_the_controller_start_the_copy_anew() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        await one.until(record.id, "ready")
    for agent in world.agents.nodes.values():
        agent.restart()
    async with world.controller("two") as two:
        await two.until(record.id, "ready")
        world.arrive("vm1", "B")
        await two.until(record.id, "completed")
    assert sum(line.startswith("A: send snat") for line in world.agents.log) == 2


async def test_a_lost_lead_stops_every_task_and_the_next_leader_carries_on() -> None:
    world = World()
    async with world.controller() as one, world.controller("two") as two:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(trigger=Trigger.MANUAL))
        await one.until(record.id, "ready")
        world.nb.leader = "two"
        await world.clock.pass_time(2.0)
        assert (await one.api.health()).role == "standby"
        assert (await two.api.health()).role == "leader"
        await two.until(record.id, "ready")
        await two.api.switch(record.id)
        await two.until(record.id, "completed")


async def test_a_stale_leader_is_fenced_by_the_epoch_and_acts_no_more() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(trigger=Trigger.MANUAL))
        await one.until(record.id, "ready")
        world.nb.udns["blue"].epoch += 7
        with pytest.raises(Conflict, match="ask again"):
            await one.api.switch(record.id)
        orders = len(world.agents.log)
        assert (await one.api.migration(record.id)).switch_ordered is False
        await world.clock.pass_time(3.0)
        await one.until(record.id, "ready")
        await one.api.switch(record.id)
        await one.until(record.id, "completed")
    assert orders < len(world.agents.log)


async def test_a_northbound_database_that_is_away_for_a_while_loses_nothing() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        await one.until(record.id, "ready")
        world.nb.down = "connection refused"
        world.arrive("vm1", "B")
        await world.clock.pass_time(5.0)
        assert not (await one.api.health()).ready
        world.nb.down = ""
        done = await one.until(record.id, "completed")
        assert (await one.api.health()).ready
    assert done.nb_transactions == 3


async def test_a_southbound_database_that_is_away_delays_the_preparation_and_says_so() -> None:
    world = World()
    world.agents.nodes["B"].bfd["A"] = "init"
    async with world.controller() as one:
        await one.api.create_udn(a_udn(chassis=("A", "C", "B")))
        record = await one.api.migrate(a_request())
        world.sb.down = "connection refused"
        await world.clock.pass_time(5.0)
        assert "Southbound" in (await one.api.migration(record.id)).waits_for
        world.sb.down = ""
        world.agents.nodes["B"].bfd["A"] = "up"
        await one.until(record.id, "ready")


async def test_a_new_controller_takes_nothing_up_before_it_has_seen_the_southbound_database() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        ident = (await one.api.migrate(a_request(overlap_s=2.0))).id
        for _ in range(500):
            if (await drive(one, ident, a_request(), 1))[0] is Phase.CONVERGING:
                break
    await world.clock.pass_time(10.0)
    world.sb.down = "not read yet"
    async with world.controller("two") as two:
        await world.clock.pass_time(5.0)
        world.sb.down = ""
        phase, _ = await drive(two, ident, a_request(), 500)
        record = await two.api.migration(ident)
    assert (phase, record.warnings) == (Phase.COMPLETED, ())
    assert not any(agent.transfers for agent in world.agents.nodes.values())


async def test_a_defect_in_one_migration_rests_is_reported_and_leaves_the_others_alone() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        await one.api.create_udn(a_udn("green", 101, anchor="vm2", policy=Policy.FOLLOW))
        broken = await one.api.migrate(a_request())
        fine = await one.api.migrate(a_request(udn="green", port="vm2", target="C"))
        await one.until(broken.id, "ready")
        good = world.agents.nodes["A"].transfers.pop(broken.id)
        world.agents.nodes["A"].transfers[broken.id] = None  # type: ignore[assignment]
        await world.clock.pass_time(3.0)
        assert "defect" in {event.kind for event in world.history.events}
        world.agents.nodes["A"].transfers[broken.id] = good
        await world.clock.pass_time(8.0)
        await one.until(broken.id, "ready")
        assert (await one.api.migration(fine.id)).phase is Phase.READY
