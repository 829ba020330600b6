from __future__ import annotations

from tests.engine.world import World, a_request, a_udn


async def test_a_migration_runs_end_to_end() -> None:
    world = World()
    async with world.controller() as one:
        state = await one.api.create_udn(a_udn())
        assert state.owner == "A"
        record = await one.api.migrate(a_request())
        await one.until(record.id, "ready")
        world.arrive("vm1", "B")
        await one.until(record.id, "converging")
        world.settle_binding("vm1", "B")
        done = await one.until(record.id, "completed")
    assert world.owner() == "B"
    assert done.nb_transactions == 3
    assert world.nb.ports["vm1"] == {"requested-chassis": "B"}
