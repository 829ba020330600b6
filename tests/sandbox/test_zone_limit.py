"""A zone limit of Open vSwitch on the target holds back new connections there, not sessions that move in."""

from __future__ import annotations

from tests.sandbox.cluster import eventually
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import SERVERS, A, B, World

LIMIT = 2


def test_sessions_move_into_a_zone_that_is_at_its_limit_and_new_ones_wait(world: World) -> None:
    vm, cluster = world.vms[0], world.cluster
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    zone = cluster.zones(B)[f"{world.udn()['router']}_snat"]
    with playing(cluster, pair_sessions(*world.vms)) as traffic:
        cluster.run("ovs-appctl", "dpctl/ct-set-limits", f"zone={zone},limit={LIMIT}", node=B)
        try:
            with traffic.move():
                done = world.migrate(vm, A, B)
            assert done["counts"]["refused"] == 0
            assert done["counts"]["created"] > LIMIT
            # It counts only what Open vSwitch committed itself: entries that moved in take nobody's place.
            answered = [world.ping(vm, SERVERS[4]) for _ in range(LIMIT + 2)]
            assert answered == [True] * LIMIT + [False] * 2, "the limit is in force for what begins here"
            traffic.pause()
            traffic.assert_all_survived()
        finally:
            cluster.run("ovs-appctl", "dpctl/ct-del-limits", f"zone={zone}", node=B)
    eventually("a new connection", lambda: world.ping(vm, SERVERS[4]))
