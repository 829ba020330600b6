from __future__ import annotations

import json

from tests.cli.conftest import Cli


def test_a_profile_is_set_and_shown(cli: Cli, url: str) -> None:
    assert "OVN's own" in cli("bfd", "show").out
    done = cli("bfd", "set", "--profile", "fast")
    assert done.code == 0
    assert "200" in done.out
    assert json.loads(cli("bfd", "show", "--json").out) == {
        "profile": "fast",
        "min_rx_ms": 200,
        "min_tx_ms": 200,
        "mult": 3,
    }
    assert json.loads(cli("bfd", "set", "--profile", "default", "--json").out)["mult"] is None


def test_an_unknown_profile_is_refused(cli: Cli, url: str) -> None:
    assert cli("bfd", "set", "--profile", "faster").code == 1
