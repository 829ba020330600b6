from __future__ import annotations

import json

from tests.cli.conftest import Cli
from tests.service.fake import FakeController


def test_show_names_the_owner_and_who_would_take_over(cli: Cli, blue: str) -> None:
    shown = cli("gateway", "show", blue)
    assert shown.code == 0
    assert "gw-1 (priority 20)" in shown.out
    assert json.loads(cli("gateway", "show", blue, "--json").out)["owner"] == "gw-1"


def test_move_starts_a_migration_of_the_gateway_alone(cli: Cli, blue: str) -> None:
    moved = json.loads(cli("gateway", "move", blue, "gw-2", "--overlap-s", "0", "--json").out)
    assert (moved["target"], moved["port"], moved["overlap_s"]) == ("gw-2", None, 0.0)
    assert cli("gateway", "move", blue, "gw-2").code == 4
    assert cli("gateway", "move", "none", "gw-2").code == 3


def test_a_person_sees_where_it_goes(cli: Cli, blue: str) -> None:
    assert "gw-1 -> gw-2" in cli("gateway", "move", blue, "gw-2", "--idempotency-key", "k").out
    done = cli("gateway", "move", blue, "gw-2", "--idempotency-key", "k", "--wait", "--timeout-s", "0")
    assert done.code == 6


def test_a_lone_gateway_moves_by_the_operators_word_only(
    cli: Cli, controller: FakeController, blue: str
) -> None:
    assert cli("gateway", "move", blue, "gw-2", "--allow-interruption", "--idempotency-key", "k").code == 0
    assert cli("gateway", "move", blue, "gw-2", "--idempotency-key", "k").code == 0
    assert [request.allow_interruption for request in controller.requests] == [True, False]
