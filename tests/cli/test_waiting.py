from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from ovnmig.cli.client import Api
from ovnmig.cli.exits import ApiProblem, CliError, Exit, Unreachable
from ovnmig.cli.waiting import Until, reached, summary, wait
from ovnmig.core.migration import Phase
from ovnmig.engine.protocols import DatabaseUnavailable
from ovnmig.service import examples
from tests.cli.conftest import Cli, serving
from tests.service.fake import FakeController


@pytest.fixture
def running(cli: Cli, blue: str, url: str) -> Iterator[Api]:
    cli("migrate", "start", blue, "gw-2")
    with Api(url) as api:
        yield api


def put(controller: FakeController, phase: Phase) -> None:
    controller.records["m1"] = replace(controller.records["m1"], phase=phase)


def test_phases_are_in_order_and_a_rollback_reaches_nothing() -> None:
    assert reached("completed", Until.READY)
    assert reached("ready", Until.READY)
    assert not reached("copying", Until.READY)
    assert not any(reached(p, Until.READY) for p in ("rolling-back", "rolled-back", "failed"))


def test_an_answer_that_says_unavailable_is_waited_out(running: Api, controller: FakeController) -> None:
    put(controller, Phase.COMPLETED)
    controller.fail_next = DatabaseUnavailable("NB is away")
    assert wait(running, "m1", until=Until.COMPLETED, timeout_s=30)["phase"] == "completed"


def test_an_unknown_migration_ends_the_waiting_at_once(running: Api) -> None:
    with pytest.raises(ApiProblem) as raised:
        wait(running, "m9", until=Until.READY, timeout_s=30)
    assert raised.value.code is Exit.NOT_FOUND


def test_a_service_that_stays_away_ends_the_waiting_after_the_time() -> None:
    with Api("http://127.0.0.1:1") as api, pytest.raises(Unreachable):
        wait(api, "m1", until=Until.READY, timeout_s=0)


def test_a_restart_of_the_service_is_waited_out(
    running: Api, controller: FakeController, capfd: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = listening.getsockname()
        listening.close()

        def restart() -> None:
            again = stack.enter_context(socket.create_server(address))
            stack.enter_context(serving(controller, again))

        put(controller, Phase.COMPLETED)
        starter = threading.Timer(0.3, restart)
        starter.start()
        with Api(f"http://127.0.0.1:{address[1]}") as api:
            assert wait(api, "m1", until=Until.COMPLETED, timeout_s=30)["phase"] == "completed"
        starter.join()
    said = capfd.readouterr().err
    assert "does not answer" in said
    assert "answers again" in said


def test_what_it_waits_for_is_told_when_the_time_is_over(running: Api, controller: FakeController) -> None:
    controller.records["m1"] = replace(controller.records["m1"], waits_for="port 'vm1' on gw-2")
    with pytest.raises(CliError) as raised:
        wait(running, "m1", until=Until.READY, timeout_s=0)
    assert raised.value.code is Exit.TIMEOUT
    assert "port 'vm1' on gw-2" in raised.value.details[0]


def test_counts_fit_on_a_line() -> None:
    assert summary(examples.MIGRATION["counts"]).startswith("212 read, 210 created")
