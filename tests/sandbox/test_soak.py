"""Twenty moves under traffic while things break: no session is lost and nothing stays behind."""

from __future__ import annotations

import json

import pytest

from devenv.demo.soakplan import FAULTS
from tests.sandbox.cluster import Cluster

MOVES = 20
SOAK_S = 900
OUT = "/tmp/soak-test"


@pytest.mark.timeout(SOAK_S + 60)
def test_twenty_moves_with_everything_that_breaks_lose_no_session(trixie: Cluster) -> None:
    words = ("--out", f"{OUT}/demo", "--scene", "soak", "--moves", str(MOVES))
    done = trixie.attempt("/opt/ovnmig/bin/python", "-m", "devenv.demo", *words, timeout_s=SOAK_S)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    told = json.loads(trixie.run("cat", f"{OUT}/soak.json"))
    assert (told["moves"], told["lost"], told["leftovers"]) == (MOVES, 0, 0)
    assert set(told["faults"]) == set(FAULTS)
    assert sum(told["opened"].values()) > 1000
    assert told["control"]["lost"], "without its entries a move loses sessions"
