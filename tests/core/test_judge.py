from __future__ import annotations

from dataclasses import replace

import pytest

from ovnmig.core import judge
from ovnmig.core.migration import TransferMode, Trigger
from ovnmig.core.views import BindingView
from tests.core.machine import ROUTER, a_record, ready_target

RECORD = a_record(nb_cfg=5)


@pytest.mark.parametrize(
    ("binding", "there"),
    [
        (None, False),
        (BindingView("vm1", "", "A", ("B",), (), True, "d"), False),
        (BindingView("vm1", "", "A", ("B",), ("B",), True, "d"), True),
        (BindingView("vm1", "", "B", (), (), True, "d"), True),
    ],
)
def test_a_vm_has_arrived_when_it_is_activated_or_bound_there(
    binding: BindingView | None, there: bool
) -> None:
    assert judge.arrived(binding, "B") is there


def test_a_target_that_can_take_traffic_has_no_problem() -> None:
    assert judge.target_problem(RECORD, ROUTER, 5, ready_target(RECORD)) == ""
    assert judge.target_problem(replace(RECORD, source=""), ROUTER, 6, ready_target(RECORD)) == ""


@pytest.mark.parametrize(
    ("nb_cfg", "changes", "words"),
    [
        (4, {}, "B to install configuration 5 (it has 4)"),
        (5, {"zones": {"snat:ovnmig-blue": 1}}, "conntrack zones on B: dnat:ovnmig-blue"),
        (5, {"bfd": {"A": "init"}}, "BFD between B and A (it is init)"),
        (5, {"bfd": {}}, "BFD between B and A (it is off)"),
        (5, {"uplink": "no bridge maps public"}, "the uplink of B: no bridge maps public"),
    ],
)
def test_what_is_missing_on_the_target_is_named(nb_cfg: int, changes: dict[str, object], words: str) -> None:
    readiness = replace(ready_target(RECORD), **changes)  # type: ignore[arg-type]
    assert judge.target_problem(RECORD, ROUTER, nb_cfg, readiness) == words


def test_a_gateway_that_stays_needs_only_the_flows() -> None:
    readiness = replace(ready_target(RECORD), zones={}, bfd={}, uplink="down")
    assert judge.target_problem(replace(RECORD, moves_gateway=False), ROUTER, 5, readiness) == ""


@pytest.mark.parametrize(
    ("changes", "met"),
    [
        ({}, False),
        ({"arrived": True}, True),
        ({"port": None}, True),
        ({"switch_ordered": True}, True),
        ({"trigger": Trigger.MANUAL, "arrived": True}, False),
        ({"trigger": Trigger.MANUAL, "switch_ordered": True}, True),
    ],
)
def test_the_trigger_is_the_arrival_or_the_order(changes: dict[str, object], met: bool) -> None:
    assert judge.trigger_met(a_record(**changes)) is met


def test_what_a_ready_migration_waits_for_is_said() -> None:
    assert judge.trigger_words(a_record()) == "the VM's arrival on B"
    assert judge.trigger_words(a_record(trigger=Trigger.MANUAL)) == "the order to switch"


def test_nothing_is_copied_without_transfer() -> None:
    assert judge.copies(a_record())
    assert not judge.copies(a_record(transfer=TransferMode.NONE))


@pytest.mark.parametrize(
    ("bfd", "flaps", "age_s", "coming"),
    [
        ({"A": "down"}, {}, 1.0, True),
        ({"A": "init"}, {"A": 0}, 1.0, True),
        ({}, {}, 1.0, True),
        ({"A": "down"}, {}, -1.0, True),  # another controller's clock is ahead
        ({"A": "down"}, {"A": 2}, 1.0, False),  # it was up, for another gateway between the two
        ({"A": "admin_down"}, {}, 1.0, False),
        ({"A": "down"}, {}, judge.BFD_START_S, False),
        ({"A": "up"}, {"A": 1}, 1.0, False),
    ],
)
def test_bfd_is_on_its_way_only_in_a_young_set_where_it_was_never_up(
    bfd: dict[str, str], flaps: dict[str, int], age_s: float, coming: bool
) -> None:
    readiness = replace(ready_target(RECORD), bfd=bfd, bfd_flaps=flaps)
    assert judge.bfd_is_coming(readiness, "A", 1000.0, 1000.0 + age_s) is coming
