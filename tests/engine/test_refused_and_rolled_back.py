from __future__ import annotations

import pytest

from ovnmig.core.migration import Phase, Trigger
from ovnmig.core.transfer import TransferState
from ovnmig.core.udn import Problem, Refused
from ovnmig.engine.protocols import AgentUnreachable, Conflict, DatabaseUnavailable, NotFound
from tests.engine.world import World, a_request, a_udn, moved


@pytest.mark.parametrize("phase", ["preparing", "copying", "ready"])
async def test_a_cancel_before_the_switch_puts_every_row_back(phase: str) -> None:
    world = World()
    world.nb.ports["vm1"] = {"requested-chassis": "A", "foreign": "kept"}
    if phase == "preparing":
        world.agents.nodes["B"].bfd["A"] = "init"
    if phase == "copying":
        world.agents.nodes["A"].copy_state = TransferState.COPYING
    async with world.controller() as one:
        await one.api.create_udn(a_udn(chassis=("A", "C", "B")))
        before = (world.nb.members("blue"), dict(world.nb.ports["vm1"]))
        record = await one.api.migrate(a_request())
        await one.until(record.id, phase)
        assert (await one.api.cancel(record.id)).cancel_ordered
        done = await one.until(record.id, "rolled-back")
    assert (world.nb.members("blue"), world.nb.ports["vm1"]) == before
    assert done.reason == "cancelled"
    assert done.nb_transactions == 2
    assert world.agents.nodes["A"].transfers == {}


async def test_a_cancel_after_the_switch_is_refused_with_the_way_back() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        ident = await moved(one, "B")
        with pytest.raises(Conflict, match="migration back to A"):
            await one.api.cancel(ident)
        await one.until(ident, "completed")
        with pytest.raises(Conflict, match="has ended: completed"):
            await one.api.cancel(ident)
        with pytest.raises(NotFound):
            await one.api.cancel("nobody")


async def test_an_order_that_cannot_be_recorded_is_answered_as_unavailable() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(trigger=Trigger.MANUAL))
        await one.until(record.id, "ready")
        world.nb.fail_next = [DatabaseUnavailable("not connected")]
        with pytest.raises(DatabaseUnavailable, match="could not be recorded"):
            await one.api.switch(record.id)
        assert (await one.api.switch(record.id)).switch_ordered


async def test_a_request_that_cannot_be_recorded_leaves_nothing() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.nb.fail_next = [DatabaseUnavailable("not connected")]
        with pytest.raises(DatabaseUnavailable):
            await one.api.migrate(a_request())
        assert await one.api.migrations() == ()
        assert (await one.api.migrate(a_request())).phase is Phase.PREPARING


async def test_a_request_whose_answer_got_lost_is_found_and_carried_on() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.nb.fail_next = [DatabaseUnavailable("time-out")]
        world.nb.lost_answer = True
        with pytest.raises(DatabaseUnavailable):
            await one.api.migrate(a_request(idempotency_key="k"))
        again = await one.api.migrate(a_request(idempotency_key="k"))
        await one.until(again.id, "ready")
    assert world.nb.effects().count("rows, record and nb_cfg") == 1


async def test_a_target_whose_agent_is_down_is_refused_and_no_row_is_touched() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.agents.nodes["B"].down = "connection refused"
        written = world.nb.effects()
        with pytest.raises(Refused, match="agent of B does not answer: connection refused"):
            await one.api.migrate(a_request())
        assert world.nb.effects() == written


@pytest.mark.parametrize("dead", ["A", "B"])
async def test_an_agent_that_dies_while_copying_leaves_the_gateway_and_the_rows_as_they_were(
    dead: str,
) -> None:
    world = World()
    world.agents.nodes["A"].copy_state = TransferState.COPYING
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        before = world.nb.members("blue")
        record = await one.api.migrate(a_request())
        await one.until(record.id, "copying")
        world.agents.nodes[dead].down = "no route to host"
        done = await one.until(record.id, "rolled-back")
    assert "no route to host" in done.reason
    assert world.nb.members("blue") == before
    assert world.owner() == "A"
    assert world.nb.ports["vm1"] == {}


async def test_a_vm_on_the_target_keeps_its_binding_when_the_gateway_stays_behind() -> None:
    world = World()
    world.agents.nodes["A"].copy_state = TransferState.COPYING
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        await one.until(record.id, "copying")
        world.arrive("vm1", "B")
        await world.clock.settle()
        await one.api.cancel(record.id)
        done = await one.until(record.id, "rolled-back")
    assert done.arrived_early
    assert world.nb.ports["vm1"] == {"requested-chassis": "B"}
    assert world.owner() == "A"


async def test_a_foreign_writers_later_binding_is_kept_by_the_rollback() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        await one.until(record.id, "ready")
        world.nb.ports["vm1"]["requested-chassis"] = "C"
        await one.api.cancel(record.id)
        await one.until(record.id, "rolled-back")
    assert world.nb.ports["vm1"] == {"requested-chassis": "C", "activation-strategy": "rarp"}


async def test_an_owner_that_is_not_the_target_at_the_end_needs_a_person_and_is_not_moved_by_closing() -> (
    None
):
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        ident = await moved(one, "B")
        world.agents.nodes["B"].down = "power lost"
        world.sb.bind("cr-ovnmig-blue-ext", "A")
        done = await one.until(ident, "failed")
    assert "A owns the gateway, not B" in done.reason
    members = world.nb.members("blue")
    assert max(members, key=lambda name: members[name]) == "A"


async def test_a_hanging_final_delta_does_not_hold_the_switch_for_longer_than_its_deadline() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(trigger=Trigger.MANUAL))
        await one.until(record.id, "ready")
        await one.api.switch(record.id)
        world.agents.nodes["A"].hangs = True
        await one.until(record.id, "rolling-back")
        world.agents.nodes["A"].hangs = False
        world.agents.nodes["A"].down = str(AgentUnreachable("gone"))
        assert world.owner() == "A"


async def test_a_constraint_of_the_database_refuses_the_request_in_its_own_words() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.nb.fail_next = [Refused((Problem("constraint", "port is gone"),))]
        with pytest.raises(Refused, match="port is gone"):
            await one.api.migrate(a_request())
        assert (await one.api.migrate(a_request())).phase is Phase.PREPARING


async def test_a_request_overtaken_by_another_writer_is_decided_anew_and_given_up_after_three_times() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.nb.race_next = 3
        with pytest.raises(Conflict, match="being changed by somebody else"):
            await one.api.migrate(a_request())
        world.nb.race_next = 2
        assert (await one.api.migrate(a_request())).phase is Phase.PREPARING


async def test_a_migration_found_in_the_database_makes_room_or_refuses_like_one_of_our_own() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
    async with world.controller("two") as two:
        with pytest.raises(Conflict, match=record.id):
            await two.api.migrate(a_request(target="C"))
