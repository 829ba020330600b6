from __future__ import annotations

import asyncio

import pytest

from ovnmig.core.migration import Binding, MigrationRequest, Phase, TransferMode, Trigger
from ovnmig.core.transfer import TransferState
from ovnmig.core.udn import Policy, Problem, Refused
from ovnmig.engine.protocols import AgentUnreachable, Conflict, DatabaseUnavailable, NotFound, NotLeader
from tests.engine.world import Running, World, a_request, a_udn


async def moved(one: Running, target: str, vm: str = "vm1", **changes: object) -> str:
    """Migrate to ``target`` until it converges; the id."""
    record = await one.api.migrate(a_request(target=target, **changes))
    await one.until(record.id, "ready")
    one.world.arrive(vm, target)
    await one.until(record.id, "converging")
    one.world.settle_binding(vm, target)
    return record.id


async def test_there_and_back_again_leaves_the_set_of_two_and_nothing_stale() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        before = set(world.nb.members("blue"))
        standby = (before - {"A"}).pop()
        await one.until(await moved(one, standby), "completed")
        await one.until(await moved(one, "A"), "completed")
    assert world.owner() == "A"
    assert set(world.nb.members("blue")) == before
    assert world.nb.ports["vm1"] == {"requested-chassis": "A"}
    assert all(not agent.transfers and not agent.armed for agent in world.agents.nodes.values())


async def test_around_three_chassis_every_former_owner_becomes_the_standby() -> None:
    world = World()
    owners = []
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        for target in ("B", "C", "A"):
            record = await one.until(await moved(one, target), "completed")
            assert record.nb_transactions == 3
            owners.append((world.owner(), sorted(world.nb.members("blue"))))
    assert owners == [("B", ["A", "B"]), ("C", ["B", "C"]), ("A", ["A", "C"])]


async def test_a_new_request_while_converging_ends_the_overlap_and_starts() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        first = await moved(one, "B")
        at = world.clock.now()
        second = await one.api.migrate(a_request(target="C"))
        assert world.clock.now() - at < 5.0
        old = await one.api.migration(first)
        assert old.phase is Phase.COMPLETED
        assert old.overlap_ended
        assert second.source == "B"
        await one.until(second.id, "ready")


async def test_a_refused_new_request_does_not_end_the_overlap() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        first = await moved(one, "B")
        with pytest.raises(Refused, match="no chassis 'Z'"):
            await one.api.migrate(a_request(target="Z"))
        assert await one.phase(first) == "converging"


async def test_a_second_request_for_a_udn_in_flight_is_refused() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        with pytest.raises(Conflict, match=record.id):
            await one.api.migrate(a_request(target="C"))
        assert (await one.api.dry_run(a_request(target="C"))).problems[-1].code == "in-flight"


async def test_the_same_idempotency_key_gives_the_running_one_and_later_the_ended_one() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        request = a_request(idempotency_key="k1")
        first, second = await asyncio.gather(one.api.migrate(request), one.api.migrate(request))
        assert first.id == second.id
        await one.api.cancel(first.id)
        await one.until(first.id, "rolled-back")
        assert (await one.api.migrate(request)).id == first.id
        with pytest.raises(Conflict, match="another migration"):
            await one.api.migrate(a_request(target="C", idempotency_key="k1"))


async def test_migrations_of_different_udns_run_side_by_side() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        await one.api.create_udn(a_udn("green", 101, anchor="vm2"))
        first = await one.api.migrate(a_request())
        second = await one.api.migrate(a_request(udn="green", port="vm2", target="C"))
        await one.until(first.id, "ready")
        await one.until(second.id, "ready")
        assert {record.id for record in await one.api.migrations()} == {first.id, second.id}
        assert [record.id for record in await one.api.migrations(udn="green")] == [second.id]
        with pytest.raises(NotFound):
            await one.api.migrations(udn="red")


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


async def test_a_manual_switch_is_recorded_before_it_is_answered() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(trigger=Trigger.MANUAL))
        with pytest.raises(Conflict, match="not ready to switch"):
            await one.api.switch(record.id)
        await one.until(record.id, "ready")
        await world.clock.pass_time(700.0)
        assert await one.phase(record.id) == "ready"
        ordered = await one.api.switch(record.id)
        assert ordered.switch_ordered
        assert '"switch_ordered":true' in world.nb.udns["blue"].document
        await one.until(record.id, "completed")


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


async def test_a_pinned_gateway_stays_and_only_the_vms_zone_moves() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn(policy=Policy.PINNED))
        members = world.nb.members("blue")
        record = await one.api.migrate(a_request())
        assert not record.moves_gateway
        world.plug("vm1", "B")
        await one.until(record.id, "ready")
        world.arrive("vm1", "B")
        await one.until(record.id, "switching", "converging")
        world.settle_binding("vm1", "B")
        done = await one.until(record.id, "completed")
    assert world.nb.members("blue") == members
    assert world.owner() == "A"
    assert done.nb_transactions == 3
    assert world.agents.log == [
        f"A: send port:vm1 to B as {record.id}-port",
        f"A: final delta of {record.id}-port",
        f"A: end {record.id}-port",
    ]


async def test_a_vm_away_from_its_gateway_has_its_zone_sent_from_its_own_chassis() -> None:
    world = World()
    world.sb.bind("vm1", "C")
    world.plug("vm1", "B")
    async with world.controller() as one:
        await one.api.create_udn(a_udn(chassis=("A", "B", "C")))
        owner = world.owner()
        record = await one.api.migrate(a_request(gateway=True))
        await one.until(record.id, "ready")
    assert record.source == owner
    assert f"C: send port:vm1 to B as {record.id}-port" in world.agents.log
    assert f"{owner}: send snat:ovnmig-blue dnat:ovnmig-blue to B as {record.id}" in world.agents.log


async def test_without_transfer_no_agent_sends_anything_and_the_record_warns() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(transfer=TransferMode.NONE))
        await one.until(record.id, "ready")
        world.arrive("vm1", "B")
        done = await one.until(record.id, "completed")
    assert "open sessions break" in done.warnings[0]
    assert [line for line in world.agents.log if "send" in line] == []
    assert world.owner() == "B"


async def test_a_gateway_moved_by_hand_needs_no_vm_and_replicates_back() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.move_gateway("blue", "B", overlap_s=30.0, idempotency_key=None)
        switched = await one.until(record.id, "converging")
        await world.clock.pass_time(5.0)
        assert f"B: send snat:ovnmig-blue dnat:ovnmig-blue to A as {record.id}-back" in world.agents.log
        done = await one.until(record.id, "completed")
    assert switched.switched_at is not None
    assert done.ended_at is not None
    assert 30.0 <= done.ended_at - switched.switched_at < 31.0


async def test_the_target_is_armed_and_the_final_delta_acknowledged_before_the_switch_is_written() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.nb.orders = world.agents.log
        await moved(one, "B")
    order = [line for line in world.agents.log if line.startswith(("NB: rows", "B: arm", "A: final"))]
    assert order[:4] == [
        "NB: rows, record and nb_cfg",
        "B: arm 172.16.1.100 fd16::100",
        "A: final delta of m1",
        "NB: rows and record",
    ]


async def test_a_bound_arrival_counts_like_an_activated_one() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request(binding=Binding.EXTERNAL))
        await one.until(record.id, "ready")
        assert world.nb.ports["vm1"] == {}
        world.arrive("vm1", "B", bound=True)
        await one.until(record.id, "completed")


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


async def test_a_dry_run_says_what_would_happen_and_writes_nothing() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        written = world.nb.effects()
        dry = await one.api.dry_run(a_request())
        assert dry.problems == ()
        assert dry.plan[0] == "put B into the gateway's HA set, below A"
        refused = await one.api.dry_run(MigrationRequest("blue", "Z", port="nobody"))
        assert {problem.code for problem in refused.problems} >= {"unknown-chassis", "unknown-port"}
        assert world.nb.effects() == written
        with pytest.raises(NotFound):
            await one.api.dry_run(a_request(udn="red"))


async def test_a_standby_serves_reads_and_refuses_orders() -> None:
    world = World()
    async with world.controller() as one, world.controller("two") as two:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        assert (await two.api.migration(record.id)).phase is Phase.PREPARING
        with pytest.raises(NotLeader):
            await two.api.migrate(a_request(target="C"))
        assert (await two.api.health()).role == "standby"


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


async def test_a_request_for_a_udn_whose_overlap_is_ending_waits_for_the_close() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        first = await moved(one, "B")
        world.agents.nodes["A"].hangs = True
        waiting = asyncio.get_running_loop().create_future()

        async def ask() -> None:
            waiting.set_result(await one.api.migrate(a_request(target="C", transfer=TransferMode.NONE)))

        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            await world.clock.settle()
            assert not waiting.done()
            world.agents.nodes["A"].hangs = False
            await one.api.migration(first)
            world.agents.wake()
            await world.clock.until(waiting.done)
        assert (await one.api.migration(first)).overlap_ended
        assert (await waiting).target == "C"


async def test_an_unknown_udn_or_migration_is_not_found() -> None:
    world = World()
    async with world.controller() as one:
        with pytest.raises(NotFound, match="no UDN 'red'"):
            await one.api.migrate(a_request(udn="red"))
        with pytest.raises(NotFound, match="no migration 'm9'"):
            await one.api.switch("m9")
