from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Result


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OVNMIG_PKI_DIR", str(tmp_path))
    monkeypatch.setenv("OVNMIG_HISTORY_FILE", str(tmp_path / "history.sqlite"))


def program(*arguments: str) -> Result:
    """Run ``ovnmig`` as a program of its own: these set up logging and signals of the whole process."""
    words = [sys.executable, "-m", "ovnmig", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def test_serve_with_wrong_settings_names_each_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVNMIG_LISTEN_PORT", "many")
    monkeypatch.setenv("OVNMIG_READY_S", "0")
    done = program("serve")
    assert done.code == 1
    assert "OVNMIG_LISTEN_PORT" in done.err
    assert "OVNMIG_READY_S" in done.err


def test_serve_without_certificate_says_how_to_make_one() -> None:
    done = program("serve")
    assert done.code == 1
    assert "ovnmig pki issue controller --controller" in done.err


def test_serve_with_a_chassis_certificate_is_refused(cli: Cli, tmp_path: Path) -> None:
    cli("pki", "init", "--dir", str(tmp_path))
    cli("pki", "issue", "controller", "--dir", str(tmp_path))
    assert "from a controller only" in program("serve").err


def test_serve_anywhere_but_on_loopback_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cli("pki", "init", "--dir", str(tmp_path))
    cli("pki", "issue", "controller", "--controller", "--dir", str(tmp_path))
    monkeypatch.setenv("OVNMIG_LISTEN_ADDRESS", "0.0.0.0")
    done = program("serve")
    assert done.code == 1
    assert "only listens on loopback" in done.err


def test_agent_without_a_local_database_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OVNMIG_AGENT_OVS_RUNDIR", str(tmp_path))
    done = program("agent")
    assert done.code == 1
    assert str(tmp_path) in done.err
    monkeypatch.setenv("OVNMIG_AGENT_CONTROL_PORT", "0")
    assert "OVNMIG_AGENT_CONTROL_PORT" in program("agent").err


def test_contract_is_written_once_and_checked(cli: Cli, tmp_path: Path) -> None:
    place = ("--directory", str(tmp_path))
    missing = cli("contract", "--check", *place)
    assert missing.code == 1
    assert "is missing" in missing.err
    assert "api/openapi.json" in cli("contract", *place).out
    assert cli("contract", *place).out == ""
    assert cli("contract", "--check", *place).code == 0
    (tmp_path / "api" / "examples" / "udn.json").write_text("{}", encoding="utf-8")
    (tmp_path / "api" / "left-over.json").write_text("{}", encoding="utf-8")
    changed = cli("contract", "--check", *place).err
    assert "api/examples/udn.json differs" in changed
    assert "api/left-over.json is not generated" in changed
