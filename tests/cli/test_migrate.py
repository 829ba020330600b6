from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from ovnmig.core.migration import Binding, Phase, TransferMode, Trigger
from ovnmig.core.udn import Problem
from tests.cli.conftest import Cli
from tests.service.fake import FakeController


def phase(controller: FakeController, phase: Phase, reason: str = "") -> None:
    """Put every migration into ``phase``."""
    for key, record in controller.records.items():
        controller.records[key] = replace(record, phase=phase, reason=reason)


def test_start_passes_every_option_on(cli: Cli, controller: FakeController, blue: str) -> None:
    done = cli(
        "migrate", "start", blue, "gw-2", "--port", "vm 1", "--binding", "ovnmig", "--trigger", "manual",
        "--transfer", "none", "--overlap-s", "2.5", "--no-gateway", "--idempotency-key", "k1", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    record = controller.records[json.loads(done.out)["id"]]
    assert (record.port, record.target, record.overlap_s) == ("vm 1", "gw-2", 2.5)
    assert (record.binding, record.trigger, record.transfer) == (
        Binding.OVNMIG,
        Trigger.MANUAL,
        TransferMode.NONE,
    )
    assert (record.moves_gateway, record.idempotency_key) == (False, "k1")


def test_a_second_start_is_a_conflict_but_not_under_the_same_key(cli: Cli, blue: str) -> None:
    first = cli("migrate", "start", blue, "gw-2", "--idempotency-key", "k", "--json")
    again = cli("migrate", "start", blue, "gw-2", "--idempotency-key", "k", "--json")
    assert json.loads(first.out)["id"] == json.loads(again.out)["id"]
    assert cli("migrate", "start", blue, "gw-2").code == 4


def test_a_dry_run_tells_the_plan_and_exits_1_when_it_would_be_refused(
    cli: Cli, controller: FakeController, blue: str
) -> None:
    fine = cli("migrate", "start", blue, "gw-2", "--dry-run")
    assert fine.code == 0
    assert "gw-2" in fine.out
    controller.problems_next = (Problem("no-uplink", "gw-2 does not map 'public'"),)
    refused = cli("migrate", "start", blue, "gw-2", "--dry-run")
    assert refused.code == 1
    assert "does not map" in refused.out
    assert not controller.records


def test_start_with_wait_follows_the_phases_to_the_end(
    cli: Cli, controller: FakeController, blue: str
) -> None:
    def finish() -> None:
        phase(controller, Phase.COMPLETED)

    timer = threading.Timer(0.5, finish)
    timer.start()
    done = cli("migrate", "start", blue, "gw-2", "--wait", "--json")
    timer.join()
    assert done.code == 0
    assert json.loads(done.out)["phase"] == "completed"
    assert done.err.splitlines()[1:] == ["requested", "completed"]


@pytest.mark.parametrize(("until", "enough"), [("ready", Phase.READY), ("converging", Phase.CONVERGING)])
def test_wait_until_a_phase_is_content_with_that_phase(
    cli: Cli, controller: FakeController, blue: str, until: str, enough: Phase
) -> None:
    cli("migrate", "start", blue, "gw-2")
    assert cli("migrate", "wait", "m1", "--until", until, "--timeout-s", "0").code == 6
    phase(controller, enough)
    assert cli("migrate", "wait", "m1", "--until", until, "--timeout-s", "0").code == 0
    assert cli("migrate", "wait", "m1", "--timeout-s", "0").code == 6


@pytest.mark.parametrize("end", [Phase.ROLLED_BACK, Phase.FAILED])
def test_wait_exits_1_with_the_reason_when_it_does_not_complete(
    cli: Cli, controller: FakeController, blue: str, end: Phase
) -> None:
    cli("migrate", "start", blue, "gw-2")
    phase(controller, end, "the agent on gw-2 died")
    done = cli("migrate", "wait", "m1", "--until", "ready")
    assert done.code == 1
    assert "the agent on gw-2 died" in done.err


def test_show_list_switch_and_cancel(cli: Cli, controller: FakeController, blue: str) -> None:
    assert "no migrations" in cli("migrate", "list").out
    cli("migrate", "start", blue, "gw-2", "--transfer", "none")
    shown = cli("migrate", "show", "m1")
    assert "sessions through the VIP break" in shown.out
    assert "m1" in cli("migrate", "list", "--udn", blue).out
    assert "no migrations" in cli("migrate", "list", "--udn", "other").out
    assert cli("migrate", "switch", "m1").code == 0
    assert controller.records["m1"].switch_ordered
    assert cli("migrate", "cancel", "m1").code == 0
    assert cli("migrate", "cancel", "m1").code == 4
    assert cli("migrate", "show", "m9").code == 3


def test_list_all_and_show_reach_into_the_history(cli: Cli, controller: FakeController, blue: str) -> None:
    started = json.loads(cli("migrate", "start", blue, "gw-2", "--json").out)["id"]
    controller.old["m0"] = replace(controller.records[started], id="m0", phase=Phase.COMPLETED)
    assert "m0" not in cli("migrate", "list").out
    listed = cli("migrate", "list", "--all", "--udn", blue)
    assert "m0" in listed.out
    assert started in listed.out
    shown = cli("migrate", "show", "m0")
    assert (shown.code, "the history only" in shown.out) == (0, True)
    assert "history" not in cli("migrate", "show", started).out
    assert cli("migrate", "show", "m99").code == 3


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--overlap-s", "nan"),
        ("--overlap-s", "inf"),
        ("--timeout-s", "nan"),
        ("--timeout-s", "-1"),
        ("--idempotency-key", ""),
        ("--idempotency-key", "two words"),
        ("--idempotency-key", "a\nb"),
        ("--idempotency-key", "ü"),
        ("--idempotency-key", "k" * 201),
    ],
)
def test_a_value_that_cannot_be_sent_is_wrong_usage_and_starts_nothing(
    cli: Cli, controller: FakeController, blue: str, option: str, value: str
) -> None:
    refused = cli("migrate", "start", blue, "gw-2", option, value)
    assert (refused.code, controller.records) == (2, {})
    assert option.strip("-").replace("-", "_") in refused.err.replace("-", "_")
