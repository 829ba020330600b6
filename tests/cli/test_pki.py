from __future__ import annotations

from pathlib import Path

from ovnmig.pki import Identity, Role, certificate_identity
from tests.cli.conftest import Cli


def test_a_ca_and_certificates_for_a_chassis_and_a_controller(cli: Cli, tmp_path: Path) -> None:
    place = ("--dir", str(tmp_path))
    assert cli("pki", "init", *place).code == 0
    assert cli("pki", "issue", "node 1", "--address", "170.168.0.2", "--address", "fd00::2", *place).code == 0
    assert cli("pki", "issue", "controller", "--controller", *place).code == 0
    assert certificate_identity(tmp_path / "node 1.crt") == Identity(Role.CHASSIS, "node 1")
    assert certificate_identity(tmp_path / "controller.crt") == Identity(Role.CONTROLLER, "controller")


def test_nothing_is_overwritten_and_mistakes_are_told(cli: Cli, tmp_path: Path) -> None:
    place = ("--dir", str(tmp_path))
    early = cli("pki", "issue", "node1", *place)
    assert early.code == 1
    assert "pki init" in early.err
    assert cli("pki", "init", *place).code == 0
    before = (tmp_path / "ca.key").read_bytes()
    assert cli("pki", "init", *place).code == 1
    assert (tmp_path / "ca.key").read_bytes() == before
    assert cli("pki", "issue", "a/b", *place).code == 1
    assert cli("pki", "issue", "node1", "--address", "nowhere", *place).code == 2
