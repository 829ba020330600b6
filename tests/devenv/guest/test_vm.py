"""VM stand-ins: names, records, and arguments that are refused before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devenv.guest import vm
from devenv.guest.plan import PlanError, plan_from
from devenv.guest.shell import ClusterError
from devenv.guest.vmrecord import Vm, default_mac, load, names, save, tap_name

PLAN = plan_from({})


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVNMIG_RUN", str(tmp_path))
    return tmp_path


def record(name: str = "vm1") -> Vm:
    return Vm(
        name=name,
        lsp="port 1",
        mac="02:00:00:00:00:01",
        addresses=("10.0.0.5/24", "fd00::5/64"),
        gateways=("10.0.0.1",),
        chassis=("ovn-chassis-1", "ovn-chassis-2"),
        on="ovn-chassis-1",
    )


@given(st.text(min_size=1))
def test_a_vm_of_any_name_gets_a_valid_device_name_and_a_unicast_mac(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    assert len(tap_name(name)) <= 15
    assert tap_name(name).isalnum()
    first = int(default_mac(name)[:2], 16)
    assert first & 1 == 0
    assert first & 2 == 2


@pytest.mark.parametrize("name", ["vm1", "vm 1", "w\u00e4chter.1"])
def test_a_record_is_read_back_as_written(run_dir: Path, name: str) -> None:
    save(record(name))
    assert names() == [name]
    assert load(name) == record(name)


def test_an_unknown_vm_is_answered_with_those_that_exist(run_dir: Path) -> None:
    save(record("vm1"))
    with pytest.raises(ClusterError, match="vm1"):
        load("vm2")


@pytest.mark.parametrize(
    ("name", "addresses", "gateways", "chassis", "on", "said"),
    [
        ("a/b", ["10.0.0.5/24"], [], [], None, "cannot name"),
        ("..", ["10.0.0.5/24"], [], [], None, "cannot name"),
        ("vm1", ["10.0.0.5/24"], [], ["ovn-central-az1"], None, "no chassis"),
        ("vm1", ["10.0.0.5/24"], [], ["ovn-chassis-7"], None, "no node"),
        ("vm1", ["10.0.0.5/24"], [], ["ovn-chassis-1"], "ovn-chassis-2", "not among"),
        ("vm1", ["10.0.0.5/24"], ["10.9.0.1"], [], None, "none of the VM's networks"),
    ],
)
def test_wrong_arguments_are_refused_in_words(
    run_dir: Path,
    name: str,
    addresses: Sequence[str],
    gateways: Sequence[str],
    chassis: Sequence[str],
    on: str | None,
    said: str,
) -> None:
    with pytest.raises(PlanError, match=said):
        vm.add(PLAN, name, addresses=addresses, gateways=gateways, chassis=chassis, on=on)
    assert names() == []


def test_a_vm_moves_only_from_where_it_runs(run_dir: Path) -> None:
    save(record())
    with pytest.raises(ClusterError, match="runs on ovn-chassis-1"):
        vm.move(PLAN, "vm1", "ovn-chassis-2", "ovn-chassis-1")


@pytest.mark.parametrize("target", ["ovn-chassis-1", "ovn-chassis-3"])
def test_a_vm_does_not_move_to_where_it_has_no_port_or_already_is(run_dir: Path, target: str) -> None:
    save(record())
    with pytest.raises(ClusterError, match="ports on ovn-chassis-1, ovn-chassis-2"):
        vm.move(PLAN, "vm1", "ovn-chassis-1", target)


def test_the_command_line_needs_a_running_cluster(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert vm.main(["list"]) == 1
    assert "no cluster is up" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["fly"], ["add", "vm1"], ["move", "vm1"], ["plug", "vm1"]])
def test_an_incomplete_command_line_is_refused(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        vm.main(argv)
    assert caught.value.code == 2
