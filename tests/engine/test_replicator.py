from __future__ import annotations

from ovnmig.core import replication
from ovnmig.core.names import gateway_names
from ovnmig.core.replication import CopyState
from ovnmig.core.transfer import TransferState
from ovnmig.core.udn import Replication, UdnRequest
from tests.engine.world import Running, World, a_udn, moved

PORT = gateway_names("blue").chassis_redirect_port


def replicated(standby_count: int = 1) -> UdnRequest:
    return a_udn(replication=Replication.CONTINUOUS, standby_count=standby_count)


def keep(source: str, target: str) -> tuple[str, str]:
    return source, replication.keep_id("blue", target)


def running(world: World) -> set[tuple[str, str]]:
    return {(name, ident) for name, agent in world.agents.nodes.items() for ident in agent.transfers}


def armed(world: World, ident: str) -> set[str]:
    return {name for name, agent in world.agents.nodes.items() if ident in agent.armed}


async def states(one: Running) -> dict[str, str]:
    return {s.chassis: s.state.value for s in (await one.api.udn("blue")).replication}


def fail_over(world: World) -> None:
    """A's node loses power; OVN gives the gateway to B."""
    world.agents.nodes["A"].down = "no route to host"
    world.dead.add("A")
    world.sb.bind(PORT, "B")


def restart_node(world: World) -> None:
    """A's node is back, with empty memory."""
    world.dead.discard("A")
    world.agents.nodes["A"].down = ""
    world.agents.nodes["A"].restart()
    world.reclaim()


async def test_the_owner_keeps_the_standby_in_step_and_both_are_armed() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        assert running(world) == {keep("A", "B")}
        assert armed(world, replication.standby_id("blue")) == {"A", "B"}
        assert armed(world, replication.owner_id("blue")) == {"A"}
        assert await states(one) == {"B": "in-step"}
        order = world.agents.nodes["A"].transfers[keep("A", "B")[1]].order
        assert (order.keep, order.peer.chassis, order.peer.host) == (True, "B", "192.0.2.2")
        assert (await one.api.health()).problems == ()
    assert "replication: the copy on B is in step" in world.kinds()


async def test_a_udn_without_replication_has_no_standing_transfer() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        await world.clock.pass_time(3)
        assert not running(world)
        assert (await one.api.udn("blue")).replication == ()


async def test_a_failover_turns_the_direction_and_the_new_owner_is_put_first() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        fail_over(world)
        await world.clock.pass_time(5)
        members = world.nb.members("blue")
        assert members["B"] > members["A"]
        assert (await states(one))["A"] == "unreachable"
        assert any("the copy on A is unreachable" in text for text in (await one.api.health()).problems)
        restart_node(world)
        assert world.owner() == "B"
        await world.clock.pass_time(4)
        assert running(world) == {keep("B", "A")}
        assert await states(one) == {"A": "in-step"}
    assert "failover: B took the gateway over from A and keeps it until somebody moves it" in world.kinds()


async def test_a_dead_nodes_silence_does_not_hold_up_that_the_new_owner_is_put_first() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        world.agents.nodes["A"].hangs = True
        await world.clock.pass_time(1.5)  # a look is under way that waits for it
        fail_over(world)
        await world.clock.pass_time(2.5)
        members = world.nb.members("blue")
        assert members["B"] > members["A"]


async def test_an_owner_for_a_moment_only_is_not_put_first() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        world.sb.bind(PORT, "B")
        await world.clock.pass_time(0.5)
        world.sb.bind(PORT, "A")
        await world.clock.pass_time(3)
        members = world.nb.members("blue")
        assert members["A"] > members["B"]


async def test_a_former_owner_that_was_only_cut_off_is_told_to_end_when_it_can_be_reached() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        fail_over(world)
        await world.clock.pass_time(5)
        world.agents.nodes["A"].down = ""
        assert keep("A", "B") in running(world)
        await world.clock.pass_time(5)
        assert running(world) == {keep("B", "A")}
        assert armed(world, replication.owner_id("blue")) == {"B"}


async def test_a_controller_that_was_away_during_the_failover_finds_it_out() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
    fail_over(world)
    await world.clock.pass_time(300)
    async with world.controller("two") as one:
        await world.clock.pass_time(5)
        members = world.nb.members("blue")
        assert members["B"] > members["A"]
        restart_node(world)
        await world.clock.pass_time(5)
        assert running(world) == {keep("B", "A")}
        assert await states(one) == {"A": "in-step"}


async def test_a_failover_while_the_database_cannot_be_written_is_written_down_later() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        world.nb.race_next = 1
        fail_over(world)
        await world.clock.pass_time(8)
        members = world.nb.members("blue")
        assert members["B"] > members["A"]
        assert one.world.owner() == "B"


async def test_a_cut_link_raises_the_alarm_and_its_end_is_told() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        cut_at = world.clock.now()
        world.agents.nodes["A"].confirmed_s = 3.5
        await world.clock.pass_time(2)
        alarms = [e for e in world.history.events if "the copy on B is behind" in e.message]
        assert alarms
        assert alarms[0].at - cut_at < 5 - 3.5
        assert await states(one) == {"B": "behind"}
        world.agents.nodes["A"].confirmed_s = 0.1
        await world.clock.pass_time(2)
        assert await states(one) == {"B": "in-step"}


async def test_agents_that_lost_their_memory_get_their_orders_again() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        for name in "AB":
            world.agents.nodes[name].restart()
        await world.clock.pass_time(3)
        assert running(world) == {keep("A", "B")}
        assert armed(world, replication.standby_id("blue")) == {"A", "B"}
        assert await states(one) == {"B": "in-step"}


async def test_a_transfer_that_failed_shows_why_and_begins_anew() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        transfer = world.agents.nodes["A"].transfers[keep("A", "B")[1]]
        transfer.state, transfer.reason = TransferState.FAILED, "zone gone"
        await world.clock.pass_time(1.1)
        assert "replication: the copy on B is failed: zone gone" in world.kinds()
        await world.clock.pass_time(3)
        assert await states(one) == {"B": CopyState.IN_STEP.value}


async def test_an_order_that_is_refused_is_ended_and_given_again() -> None:
    world = World()
    async with world.controller() as one:
        world.agents.nodes["A"].refuses = "another order under that id"
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        assert await states(one) == {"B": "unreachable"}
        world.agents.nodes["A"].refuses = ""
        await world.clock.pass_time(3)
        assert await states(one) == {"B": "in-step"}


async def test_a_standby_that_left_the_southbound_database_is_named() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        world.agents.nodes["A"].restart()
        del world.sb.chassis["B"]
        await world.clock.pass_time(3)
        assert await states(one) == {"B": "unreachable"}
        assert "no encap address" in (await one.api.udn("blue")).replication[0].reason


async def test_a_migration_of_the_gateway_takes_its_ends_and_gives_them_back() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        ident = await moved(one, "B")
        assert not {one for one in running(world) if "-keep-" in one[1]}
        await one.until(ident, "completed")
        await world.clock.pass_time(3)
        assert running(world) == {keep("B", "A")}
        assert await states(one) == {"A": "in-step"}


async def test_a_third_member_is_kept_in_step_during_a_migration() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated(standby_count=2))
        await world.clock.pass_time(3)
        assert running(world) == {keep("A", "B"), keep("A", "C")}
        await moved(one, "C")
        await world.clock.pass_time(3)
        assert {each for each in running(world) if "-keep-" in each[1]} == {keep("C", "B")}


async def test_a_change_to_none_and_a_deletion_end_everything() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        await one.api.change_udn("blue", a_udn())
        assert not running(world)
        await world.clock.pass_time(3)
        await one.api.change_udn("blue", replicated())
        await world.clock.pass_time(3)
        assert running(world) == {keep("A", "B")}
        world.agents.nodes["B"].down = "away"
        await one.api.delete_udn("blue")
        assert not running(world)
        world.agents.nodes["B"].down = ""
        await world.clock.pass_time(3)
        for ident in (replication.standby_id("blue"), replication.owner_id("blue")):
            assert armed(world, ident) == set()


async def test_a_database_that_is_away_stops_nothing_that_runs() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        await world.clock.pass_time(3)
        world.sb.down = "gone"
        await world.clock.pass_time(5)
        assert running(world) == {keep("A", "B")}
        world.sb.down = ""
        await world.clock.pass_time(3)
        assert await states(one) == {"B": "in-step"}


async def test_a_replica_that_stands_by_orders_nothing() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(replicated())
        async with world.controller("two") as two:
            await world.clock.pass_time(3)
            assert await states(two) == {}
            assert await states(one) == {"B": "in-step"}
