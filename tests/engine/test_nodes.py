from __future__ import annotations

from tests.engine.world import World, a_udn


async def test_every_chassis_is_shown_with_its_agents_word_or_why_there_is_none() -> None:
    world = World()
    world.agents.nodes["B"].down = "connection refused"
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
        await one.api.create_udn(a_udn("green", 101))
        nodes = {node.chassis: node for node in await one.api.nodes()}
    assert list(nodes) == ["A", "B", "C"]
    assert nodes["A"].gateways == ("blue", "green")
    assert nodes["A"].agent is not None
    assert nodes["A"].agent_problem == ""
    assert nodes["B"].agent is None
    assert nodes["B"].agent_problem == "connection refused"
    assert nodes["C"].encap_ips == ("192.0.2.3",)
    assert nodes["C"].physical_networks == ("public",)
