from __future__ import annotations

from ovnmig.core.transfer import AnnounceOrder, Peer, TransferOrder, ZoneKind, ZoneRef
from ovnmig.core.udn import Replication
from ovnmig.engine.counters import NoCounters
from ovnmig.engine.journal import Journal
from ovnmig.engine.options import EngineOptions
from ovnmig.engine.perform import Performer
from ovnmig.engine.runner import Outside
from ovnmig.engine.sweeper import Sweeper
from tests.engine.agents import FakeAgent
from tests.engine.world import Running, World, a_request, a_udn, moved

LATE = 60.0
"""Long enough for two looks of the sweeper and the time between."""


def sweeps(world: World) -> list[str]:
    return [line for line in world.kinds() if line.startswith("orphan")]


async def left_behind(one: Running) -> FakeAgent:
    """A completed migration to B whose agent was silent when it ended: both its transfer back to A and its
    announcement stay there."""
    world = one.world
    await one.api.create_udn(a_udn())
    ident = await moved(one, "B")
    agent = world.agents.nodes["B"]
    await world.clock.pass_time(5)
    agent.down = "connection refused"
    await one.until(ident, "completed", "failed")
    agent.down = ""
    return agent


async def test_what_an_agent_missed_the_end_of_is_ended_counted_and_told() -> None:
    world = World()
    async with world.controller() as one:
        agent = await left_behind(one)
        assert (set(agent.transfers), set(agent.armed)) == ({"m1-back"}, {"m1"})
        await world.clock.pass_time(LATE)
    assert (agent.transfers, agent.armed) == ({}, {})
    assert sorted(sweeps(world)) == [
        "orphan: ended announcement m1 that was left on B: migration m1 is not open any more",
        "orphan: ended transfer m1-back that was left on B: migration m1 is not open any more",
    ]
    told = next(event for event in world.history.events if event.kind == "orphan")
    assert (told.udn, told.migration, told.details["chassis"]) == ("blue", "m1", "B")


async def test_a_controller_with_no_memory_finds_what_its_predecessor_left() -> None:
    world = World()
    async with world.controller() as one:
        agent = await left_behind(one)
        await one.api.delete_udn("blue")
    async with world.controller("two"):
        await world.clock.pass_time(LATE)
    assert (agent.transfers, agent.armed) == ({}, {})
    assert all("there is no UDN 'blue' any more" in line for line in sweeps(world))


async def test_a_running_migration_and_a_running_replication_are_left_alone() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn(replication=Replication.CONTINUOUS))
        record = await one.api.migrate(a_request(target="C"))
        await one.until(record.id, "ready")
        await world.clock.pass_time(LATE)
        assert await one.phase(record.id) == "ready"
        held = {name: set(agent.transfers) for name, agent in world.agents.nodes.items()}
        assert record.id in held["A"]
        assert any("-keep-B" in ident for ident in held["A"])
    assert sweeps(world) == []


async def test_a_standing_order_on_a_chassis_that_left_the_set_is_ended() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn(replication=Replication.CONTINUOUS, chassis=("A", "B")))
        agent = world.agents.nodes["C"]
        await world.clock.pass_time(2)
        stray = next(iter(world.agents.nodes["B"].armed.values()))
        await world.agents.arm("C", stray)
        await world.clock.pass_time(LATE)
    assert agent.armed == {}
    assert sweeps(world) == [
        f"orphan: ended announcement {stray.id} that was left on C: C is not in the gateway's HA set any more"
    ]


async def test_orders_of_another_deployment_are_never_touched() -> None:
    world = World()
    async with world.controller() as one:
        agent = world.agents.nodes["C"]
        agent.deployment = "theirs"
        zones = (ZoneRef(ZoneKind.SNAT, "r"),)
        order = TransferOrder("x1", "red", 1, Peer("B", "192.0.2.2", 8789), zones, migration="x1")
        await world.agents.start_transfer("C", order)
        await world.agents.arm("C", AnnounceOrder("x1", "red", 1, "cr", "ln", "m", ("1.1.1.1",), None, "x1"))
        await world.clock.pass_time(LATE)
        assert one.seat.shared.leader == "one"
    assert (set(agent.transfers), set(agent.armed)) == ({"x1"}, {"x1"})
    assert sweeps(world) == []


async def test_a_replica_that_stands_by_ends_nothing() -> None:
    world = World()
    async with world.controller() as one:
        agent = await left_behind(one)
        await one.api.delete_udn("blue")
    world.nb.leader = "somebody else"
    async with world.controller("two"):
        await world.clock.pass_time(LATE)
    assert agent.transfers


def sweeper(world: World) -> Sweeper:
    """One of its own, for a controller process called "one"."""
    return Sweeper(
        Outside(
            northbound=world.nb.seen_by("one"),
            southbound=world.sb,
            performer=Performer(world.sb, world.agents),
            journal=Journal(world.history, world.clock),
            clock=world.clock,
            options=EngineOptions(),
            counters=NoCounters(),
        ),
        world.agents,
        "ovnmig",
    )


async def test_a_lead_that_is_lost_while_looking_ends_nothing() -> None:
    world = World()
    async with world.controller() as one:
        agent = await left_behind(one)
    alone = sweeper(world)
    await world.clock.pass_time(10)
    await alone.look()
    await world.clock.pass_time(10)
    world.nb.leader = "somebody else"
    await alone.look()
    assert agent.transfers
    world.nb.leader = "one"
    await alone.look()
    assert not agent.transfers


async def test_an_agent_that_cannot_tell_or_does_not_answer_holds_up_nobody() -> None:
    world = World()
    world.agents.nodes["A"].tells_orders = False
    world.agents.nodes["C"].down = "no route to host"
    async with world.controller() as one:
        agent = await left_behind(one)
        await world.clock.pass_time(20)
        agent.down = "connection refused"
        await world.clock.pass_time(20)
        agent.down = ""
        await world.clock.pass_time(LATE)
    assert (agent.transfers, agent.armed) == ({}, {})
    assert len(sweeps(world)) == 2


async def test_an_agent_that_goes_before_it_is_told_is_told_the_next_time() -> None:
    world = World()
    async with world.controller() as one:
        agent = await left_behind(one)
    alone = sweeper(world)
    await world.clock.pass_time(10)
    await alone.look()
    await world.clock.pass_time(10)
    agent.refuses_ends = "not now"
    await alone.look()
    assert sweeps(world) == []
    agent.refuses_ends = ""
    await alone.look()
    assert (agent.transfers, agent.armed, len(sweeps(world))) == ({}, {}, 2)


async def test_without_the_databases_nothing_is_judged() -> None:
    world = World()
    async with world.controller() as one:
        agent = await left_behind(one)
        world.sb.down = "connection refused"
        await world.clock.pass_time(LATE)
        assert agent.transfers
        world.sb.down = ""
        await world.clock.pass_time(LATE)
        assert not agent.transfers


async def test_a_udn_whose_record_is_damaged_keeps_what_runs_for_it() -> None:
    world = World()
    async with world.controller() as one:
        agent = await left_behind(one)
        world.nb.udns["blue"].document = "{"
        await world.clock.pass_time(LATE)
        assert agent.transfers
