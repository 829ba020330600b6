from __future__ import annotations

from ovnmig.engine.controller import Controller
from ovnmig.engine.counters import Counters, NoCounters
from ovnmig.engine.protocols import Agents, Clock, ControllerApi, History, Northbound, Southbound
from tests.engine.world import World


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


async def test_the_fakes_and_the_controller_are_what_the_protocols_ask_for() -> None:
    """The annotations are checked by mypy; that nothing is missing or beyond, here."""
    world = World()
    northbound: Northbound = world.nb.seen_by("one")
    southbound: Southbound = world.sb
    agents: Agents = world.agents
    clock: Clock = world.clock
    history: History = world.history
    counters: Counters = NoCounters()
    api: ControllerApi = Controller(
        northbound=northbound,
        southbound=southbound,
        agents=agents,
        history=history,
        clock=clock,
        owner="ovnmig",
        new_id=lambda: "m1",
        counters=counters,
    )
    for kind, real in (
        (Northbound, northbound),
        (Southbound, southbound),
        (Agents, agents),
        (Clock, clock),
        (History, history),
        (Counters, counters),
        (ControllerApi, api),
    ):
        assert public(kind) <= set(dir(real)), kind
    assert public(Controller) == public(ControllerApi)
