from __future__ import annotations

import json

from ovnmig.engine.protocols import Health
from tests.cli.conftest import Cli
from tests.service.fake import FakeController, node


def test_status_shows_service_udns_nodes_and_what_is_in_flight(cli: Cli, blue: str) -> None:
    cli("migrate", "start", blue, "gw-2")
    shown = cli("status")
    assert shown.code == 0
    for words in ("ready, leader", blue, "gw-2", "m1"):
        assert words in shown.out
    assert set(json.loads(cli("status", "--json").out)) == {"ready", "udns", "nodes", "migrations"}


def test_status_of_a_service_that_is_not_ready_exits_5_with_the_words(
    cli: Cli, controller: FakeController, url: str
) -> None:
    controller.health_now = Health(False, "standby", ("NB has not answered for 12 s",))
    shown = cli("status")
    assert shown.code == 5
    assert "NB has not answered for 12 s" in shown.out


def test_watch_without_following_prints_the_history_a_line_an_event(cli: Cli, blue: str) -> None:
    cli("migrate", "start", blue, "gw-2")
    cli("migrate", "cancel", "m1")
    lines = cli("watch", "--after", "0", "--no-follow").out.splitlines()
    assert [line.split("  ")[1] for line in lines] == ["accepted", "phase"]
    events = [
        json.loads(line) for line in cli("watch", "--after", "1", "--no-follow", "--json").out.splitlines()
    ]
    assert [e["seq"] for e in events] == [2]
    assert cli("watch", "--after", "0", "--no-follow", "--migration", "other").out == ""


def test_doctor_of_a_healthy_cluster_exits_0(cli: Cli, blue: str) -> None:
    done = cli("doctor")
    assert done.code == 0, done.out
    assert done.out == "all is well\n"


def test_doctor_exits_1_and_says_what_is_wrong_and_what_to_do(
    cli: Cli, controller: FakeController, blue: str
) -> None:
    controller.nodes_now = (node("gw-1"), node("gw-2", agent=False))
    done = cli("doctor")
    assert done.code == 1
    assert "gw-2 has no agent" in done.out
    assert "run 'ovnmig agent' on gw-2" in done.out
    told = json.loads(cli("doctor", "--json").out)
    assert (told["healthy"], [f["code"] for f in told["findings"]]) == (False, ["no-agent"])


def test_doctor_says_why_the_service_is_not_ready(cli: Cli, controller: FakeController, url: str) -> None:
    controller.health_now = Health(False, "standby", ("SB is not reachable",))
    done = cli("doctor")
    assert done.code == 1
    assert "SB is not reachable" in done.out


def test_doctor_exits_2_when_nothing_answers(cli: Cli) -> None:
    done = cli("doctor", "--url", "http://127.0.0.1:1")
    assert done.code == 2
    assert "ovnmig serve" in done.err
    assert json.loads(cli("doctor", "--json", "--url", "http://127.0.0.1:1").out)["reachable"] is False
