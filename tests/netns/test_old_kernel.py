"""A kernel before 6.8, which dumps every zone: this one under an old name, so that nothing asks it to filter.

`setarch --uname-2.6` changes what a program is told of the kernel's version, and the engine goes by that.
"""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from ovnmig.core.transfer import Counts, TransferState, TransferStatus
from ovnmig.drivers.node_agent import NodeAgents
from tests.bench.conntrack import sessions
from tests.netns.nodes import eventually, reached, site
from tests.netns.test_agent_keep import holds
from tests.netns.test_agent_transfer import A_ZONE, B_ZONE, drop, fill, held, some

OLD = ("setarch", platform.machine(), "--uname-2.6")
NEIGHBOUR = 7

pytestmark = pytest.mark.timeout(240)


def old(*words: str) -> subprocess.CompletedProcess[str]:
    """A Python program that believes that the kernel is an old one."""
    return subprocess.run([*OLD, sys.executable, *words], capture_output=True, text=True, check=False)


def test_under_that_name_the_kernel_is_not_asked_to_filter() -> None:
    told = old("-c", "from ovnmig.conntrack import kernel_filters_zones; print(kernel_filters_zones())")
    assert (told.stdout.strip(), told.stderr) == ("False", "")


def test_every_kind_of_entry_makes_the_round_trip() -> None:
    words = ("-q", "tests/netns/test_round_trip.py", "tests/netns/test_generated.py")
    done = old("-m", "pytest", *words)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_agents_move_their_zone_and_leave_the_neighbours_alone() -> None:
    with site("a", "b", agents=()) as where:
        for node in where.nodes.values():
            node.start_agent(*OLD)
        fill(where, "a", A_ZONE, sessions(300))
        fill(where, "a", NEIGHBOUR, some(0, 200))
        fill(where, "b", NEIGHBOUR, some(0, 200))

        async def scenario(agents: NodeAgents) -> TransferStatus:
            await eventually(lambda: agents.node("a"))
            await eventually(lambda: agents.node("b"))
            await agents.start_transfer("a", where.order())
            await reached(agents, "a", "m1", TransferState.IN_STEP)
            drop(where, "a", A_ZONE, some(0, 100))
            await holds(where, 200)
            drop(where, "b", B_ZONE, some(100, 150))
            await holds(where, 200)
            return await agents.finish_transfer("a", "m1")

        final = where.drive(scenario)
        assert [len(held(where, name, NEIGHBOUR)) for name in where.nodes] == [200, 200]
    assert final.state is TransferState.FINAL
    assert final.counts == Counts(read=300, created=300, kinds={"tcp/4": 300})
