"""`ovnmig doctor` on a real cluster: what is broken is named, and what is well is not."""

from __future__ import annotations

import json
from typing import Any

from tests.sandbox.cluster import Cluster, eventually
from tests.sandbox.world import A, B, C, World


def findings(cluster: Cluster) -> list[Any]:
    """What doctor finds wrong now."""
    found: list[Any] = json.loads(cluster.ovnmig("doctor", "--json").stdout)["findings"]
    return [one for one in found if one["problem"]]


def test_a_node_that_is_cut_off_is_named_and_a_healed_cluster_is_well(world: World) -> None:
    cluster = world.cluster
    world.create(chassis=[A, B, C], standby_count=2)
    world.settle()
    eventually("all is well", lambda: not findings(cluster), 20)
    cluster.run("ip", "link", "set", "eth1", "down", node=C)
    try:
        words = f"chassis {A}: BFD on the tunnel to chassis '{C}' is down"
        eventually("it is named", lambda: any(words in one["what"] for one in findings(cluster)), 30)
        assert cluster.ovnmig("doctor").returncode == 1
    finally:
        cluster.run("ip", "link", "set", "eth1", "up", node=C)
    eventually("all is well again", lambda: not findings(cluster), 30)
    assert cluster.ovnmig("doctor").returncode == 0
