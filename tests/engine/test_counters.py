from __future__ import annotations

from ovnmig.core.migration import MigrationRecord
from ovnmig.engine.controller import Controller
from ovnmig.engine.counters import NoCounters
from ovnmig.engine.protocols import DatabaseUnavailable
from tests.engine.world import World, a_request, a_udn


class Listed(NoCounters):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.failed: list[str] = []

    def migration_changed(self, record: MigrationRecord) -> None:
        self.phases.append(record.phase.value)

    def effect_failed(self, effect: str) -> None:
        self.failed.append(effect)


async def test_every_phase_and_every_failed_order_is_counted() -> None:
    world = World()
    counters = Listed()
    controller = Controller(
        northbound=world.nb.seen_by("one"),
        southbound=world.sb,
        agents=world.agents,
        history=world.history,
        clock=world.clock,
        owner="ovnmig",
        new_id=lambda: "m1",
        counters=counters,
    )
    async with controller:
        await world.clock.settle()
        await controller.create_udn(a_udn())
        await controller.migrate(a_request())
        await world.clock.pass_time(1.0)
        world.agents.nodes["B"].arm_fails = "no patch port"
        world.nb.fail_next = [DatabaseUnavailable("away")]
        world.arrive("vm1", "B")
        await world.clock.pass_time(1.5)
        world.agents.nodes["B"].arm_fails = ""
        await world.clock.pass_time(70.0)
    assert counters.phases == ["preparing", "copying", "ready", "switching", "converging", "completed"]
    assert counters.failed.count("Arm") >= 1
    assert "Commit" in counters.failed
