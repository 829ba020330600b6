"""A reset ends a session that has moved, whichever end sends it and whatever its sequence number is."""

from __future__ import annotations

import itertools
import json

from tests.sandbox.traffic import Program
from tests.sandbox.world import SERVERS, A, B, World

EXPECTED = set(itertools.product((4, 6), ("client", "server"), (False, True)))


def test_a_reset_passes_in_both_directions_after_a_transfer(world: World) -> None:
    vm, cluster = world.vms[0], world.cluster
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    result = f"/tmp/resets-{world.name}.json"
    servers = json.dumps({str(family): address for family, address in SERVERS.items()})
    program = Program(cluster, "guest", "tests.sandbox.resets", vm, servers, result, result=result)
    try:
        program.wait_ready()
        world.migrate(vm, A, B)
        program.tell("go")
        told = program.finish()
    finally:
        program.abandon()
    assert {(t["family"], t["by"], t["high"]) for t in told} == EXPECTED
    assert [t for t in told if t["seen"] != "reset"] == []
