from __future__ import annotations

import asyncio

import pytest

from ovnmig.core.migration import Binding, MigrationRequest, Phase, TransferMode, Trigger
from ovnmig.core.udn import Policy, Refused
from ovnmig.engine.protocols import Conflict, NotFound, NotLeader
from tests.engine.world import World, a_request, a_udn, moved


async def test_a_migration_asked_for_right_after_its_udn_waits_for_bfd_and_goes_on() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.agents.nodes["B"].bfd["A"] = "down"
        dry = await one.api.dry_run(a_request())
        assert dry.problems == ()
        assert any("wait for BFD between B and A (it is down" in line for line in dry.plan)
        record = await one.api.migrate(a_request())
        await world.clock.pass_time(3)
        waiting = await one.api.migration(record.id)
        assert (waiting.phase, waiting.waits_for) == (Phase.PREPARING, "BFD between B and A (it is down)")
        world.agents.nodes["B"].bfd["A"] = "up"
        await one.until(record.id, "ready")


async def test_bfd_that_does_not_come_up_in_time_rolls_back_with_what_was_waited_for() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        world.agents.nodes["B"].bfd["A"] = "init"
        record = await one.api.migrate(a_request())
        done = await one.until(record.id, "rolled-back")
    assert done.reason == "preparing took too long; it waited for BFD between B and A (it is init)"
    assert world.owner() == "A"


async def test_bfd_that_was_up_or_had_its_time_is_refused() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        agent = world.agents.nodes["B"]
        agent.bfd["A"], agent.bfd_flaps["A"] = "down", 2
        with pytest.raises(Refused, match="BFD towards A is down on B"):
            await one.api.migrate(a_request())
        agent.bfd_flaps["A"] = 0
        await world.clock.pass_time(30)
        with pytest.raises(Refused, match="mend the tunnel"):
            await one.api.migrate(a_request())


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


async def test_an_old_migration_is_found_in_the_history_when_no_record_row_holds_it_any_more() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        for _ in range(6):
            record = await one.api.migrate(a_request())
            await one.api.cancel(record.id)
            await one.until(record.id, "rolled-back")
        with pytest.raises(NotFound, match="last 5"):
            await one.api.migration("m1")
        old = await one.api.old_migration("m1")
        assert (old.id, old.phase) == ("m1", Phase.ROLLED_BACK)
        assert old.ended_at is not None
        with pytest.raises(Conflict, match="has ended: rolled-back"):
            await one.api.cancel("m1")
        assert len(await one.api.migrations()) == 5
        assert len(await one.api.old_migrations(udn="blue")) == 6
        await one.api.delete_udn("blue")
        assert len(await one.api.old_migrations()) == 6
        world.history.migrations.clear()
        with pytest.raises(NotFound, match="history file was lost"):
            await one.api.old_migration("m1")


async def test_what_a_predecessor_did_not_live_to_keep_is_kept_by_whoever_leads_next() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        record = await one.api.migrate(a_request())
        await one.api.cancel(record.id)
        await one.until(record.id, "rolled-back")
    world.history.migrations.clear()
    async with world.controller("two") as two:
        assert (await two.api.old_migration(record.id)).phase is Phase.ROLLED_BACK


async def test_a_lone_gateway_is_moved_by_hand_with_the_operators_word_only() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn(standby_count=0))
        with pytest.raises(Refused, match="allow_interruption"):
            await one.api.move_gateway("blue", "B", overlap_s=1.0, idempotency_key=None)
        record = await one.api.move_gateway(
            "blue", "B", overlap_s=1.0, allow_interruption=True, idempotency_key=None
        )
        await one.until(record.id, "completed")
    assert world.owner() == "B"
