"""Conditions on the real cluster under which a migration stays in a phase for as long as a test needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.sandbox.cluster import Cluster

STREAM_PORT = 8789
TABLE = "inet sandbox_tests"


@contextlib.contextmanager
def no_streams(cluster: Cluster, chassis: str) -> Iterator[None]:
    """No agent's session stream reaches this chassis; its control port answers as ever."""
    script = (
        f"nft add table {TABLE} && nft add chain {TABLE} in '{{ type filter hook input priority 0; }}' && "
        f"nft add rule {TABLE} in tcp dport {STREAM_PORT} drop && "
        f"nft add rule {TABLE} in tcp sport {STREAM_PORT} drop"
    )
    cluster.run("sh", "-ec", script, node=chassis)
    try:
        yield
    finally:
        cluster.run("sh", "-ec", f"nft delete table {TABLE}", node=chassis)


@contextlib.contextmanager
def held(cluster: Cluster, phase: str, target: str) -> Iterator[None]:
    """A migration to ``target`` does not get beyond ``phase`` inside the block.

    preparing: the target's ovn-controller stands still, so the configuration is never in force there.
    copying: the entries do not reach the target. ready: nothing but a manual trigger is needed.
    """
    with contextlib.ExitStack() as stack:
        if phase == "preparing":
            stack.enter_context(cluster.frozen(target, "ovn-controller"))
        elif phase == "copying":
            stack.enter_context(no_streams(cluster, target))
        else:
            assert phase == "ready", phase
        yield
