from __future__ import annotations

from ovnmig.core import rollback
from ovnmig.core.migration import Binding
from ovnmig.core.rows import PortEdit
from tests.core.machine import a_record


def test_only_our_two_keys_are_kept_for_the_way_back() -> None:
    options = {"requested-chassis": "A", "qos_burst": "9"}
    assert rollback.kept_options(options) == {"requested-chassis": "A"}
    assert rollback.kept_options({}) == {}


def test_the_port_may_be_on_both_then_on_the_target_and_loses_the_strategy_at_the_end() -> None:
    record = a_record()
    both = {"requested-chassis": "A,B"}
    assert rollback.prepare_port(record) == (PortEdit("vm1", {**both, "activation-strategy": "rarp"}, None),)
    assert rollback.switch_port(record) == (PortEdit("vm1", {"requested-chassis": "B"}, both),)
    assert rollback.close_port(record) == (
        PortEdit(
            "vm1", {"activation-strategy": None}, {"requested-chassis": "B", "activation-strategy": "rarp"}
        ),
    )


def test_a_rollback_restores_what_was_there_only_while_ours_is_there() -> None:
    record = a_record(port_options_before={"requested-chassis": "A"})
    ours = {"requested-chassis": "A,B", "activation-strategy": "rarp"}
    assert rollback.restore_port(record) == (
        PortEdit("vm1", {"requested-chassis": "A", "activation-strategy": None}, ours),
    )
    absent = rollback.restore_port(a_record())
    assert absent[0].options == {"requested-chassis": None, "activation-strategy": None}


def test_a_vm_on_the_target_stays_bound_there() -> None:
    edit = rollback.restore_port(a_record(arrived=True, port_options_before={"requested-chassis": "A"}))[0]
    assert edit.options["requested-chassis"] == "B"


def test_a_port_that_is_not_ours_to_bind_is_never_touched() -> None:
    for record in (
        a_record(binding=Binding.EXTERNAL),
        a_record(port=None, port_source=""),
        a_record(port_source="B"),
    ):
        assert rollback.prepare_port(record) == ()
        assert rollback.switch_port(record) == ()
        assert rollback.close_port(record) == ()
        assert rollback.restore_port(record) == ()
