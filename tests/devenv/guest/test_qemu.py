"""Real VMs: what QEMU is told, where it is, and what is refused without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devenv.guest import qemu, vm
from devenv.guest.plan import PlanError, plan_from
from devenv.guest.shell import ClusterError
from devenv.guest.vmrecord import Vm, save

PLAN = plan_from({})
REAL = Vm(
    name="a vm with a name that is much too long for the path of a socket, if it were in there as it is",
    lsp="port",
    mac="02:00:00:00:00:01",
    addresses=("10.0.0.5/24", "fd00::5/64"),
    gateways=("10.0.0.1",),
    chassis=("ovn-chassis-1", "ovn-chassis-2"),
    on="ovn-chassis-1",
    kind="qemu",
)


@pytest.fixture(autouse=True)
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVNMIG_RUN", "/run/ovnmig")
    return tmp_path


def test_the_paths_of_sockets_are_short_whatever_the_name() -> None:
    assert len(str(qemu.place(REAL, "ovn-chassis-1") / "control")) < 100


def test_the_command_line_holds_card_addresses_and_whether_a_vm_comes_in() -> None:
    argv = qemu.command_line(REAL, "ovn-chassis-1", incoming=False)
    assert f"tap,id=n0,ifname={REAL.tap},script=no,downscript=no,vhost=off" in argv
    assert any(REAL.mac in word for word in argv)
    assert argv[argv.index("-append") + 1].endswith("addresses=10.0.0.5/24,fd00::5/64 gateways=10.0.0.1")
    assert "-incoming" not in argv
    assert qemu.command_line(REAL, "ovn-chassis-2", incoming=True)[-2:] == ["-incoming", "defer"]


def test_the_port_of_a_migration_is_free_for_anybody() -> None:
    assert 49152 <= qemu.incoming_port(REAL) < 49152 + qemu.PORTS


def test_without_the_layer_a_real_vm_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "LAYER", tmp_path)
    with pytest.raises(ClusterError, match="--vm qemu"):
        qemu.check_layer()


def test_what_a_real_vm_cannot_do_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVNMIG_RUN", str(tmp_path))
    save(REAL)
    with pytest.raises(ClusterError, match="nothing runs in it"):
        vm.command(REAL.name, ["true"])
    with pytest.raises(PlanError, match="name who binds it"):
        vm.move(PLAN, REAL.name, "ovn-chassis-1", "ovn-chassis-2", binding="presence")
