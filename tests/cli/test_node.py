from __future__ import annotations

import json

from tests.cli.conftest import Cli
from tests.service.fake import FakeController, node


def test_list_shows_each_chassis_and_what_its_agent_says(
    cli: Cli, controller: FakeController, url: str
) -> None:
    controller.nodes_now = (node("gw-1", problems=("uplink br-ex is down",)), node("gw-2", agent=False))
    lines = cli("node", "list").out.splitlines()
    assert len(lines) == 3
    assert "uplink br-ex is down" in lines[1]
    assert "no agent answers on gw-2" in lines[2]
    assert len(json.loads(cli("node", "list", "--json").out)["nodes"]) == 2


def test_no_chassis_is_said_in_words(cli: Cli, controller: FakeController, url: str) -> None:
    controller.nodes_now = ()
    assert "no chassis" in cli("node", "list").out
