from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ovnmig import __version__
from ovnmig.cli.exits import Exit
from tests.cli.conftest import Cli

COMMANDS = (
    "serve",
    "agent",
    "udn",
    "migrate",
    "gateway",
    "node",
    "status",
    "watch",
    "doctor",
    "pki",
    "contract",
)


def test_help_lists_every_command_and_the_exit_codes(cli: Cli) -> None:
    shown = cli("--help")
    assert shown.code == 0
    for command in (*COMMANDS, "Exit codes"):
        assert command in shown.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Cli, command: str) -> None:
    assert cli(command, "--help").code == 0


def test_the_version_is_told(cli: Cli) -> None:
    assert cli("--version").out == f"ovnmig {__version__}\n"


def test_a_wrong_command_line_exits_2(cli: Cli) -> None:
    for words in (
        ["bogus"],
        ["udn", "show"],
        ["udn", "list", "--bogus"],
        ["migrate", "wait", "m", "--until", "x"],
    ):
        assert cli(*words).code == 2


def test_an_unreachable_service_exits_5(cli: Cli) -> None:
    for words in (["udn", "list"], ["migrate", "list"], ["node", "list"], ["status"], ["watch"]):
        assert cli(*words, "--url", "http://127.0.0.1:1").code == 5


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["udn", "show", "nosuch"], 3, "not-found"),
        (["migrate", "show", "nosuch"], 3, "not-found"),
        (["gateway", "show", "nosuch"], 3, "not-found"),
        (["migrate", "start", "nosuch", "gw-1"], 3, "not-found"),
        (["udn", "show", "a/b"], 2, "usage"),
    ],
)
def test_with_json_a_refusal_is_a_problem_document_on_stdout(
    cli: Cli, url: str, words: list[str], code: int, kind: str
) -> None:
    told = cli(*words, "--json")
    document = json.loads(told.out)
    assert (told.code, document["type"]) == (code, f"urn:ovnmig:problem:{kind}")
    assert document["detail"]
    assert told.err.startswith("error: ")


@pytest.mark.parametrize(
    "words", [["udn", "list"], ["migrate", "list"], ["node", "list"], ["status"], ["bfd", "show"], ["watch"]]
)
def test_with_json_an_unreachable_service_is_told_on_stdout_too(cli: Cli, words: list[str]) -> None:
    told = cli(*words, "--json", "--url", "http://127.0.0.1:1")
    document = json.loads(told.out)
    assert (told.code, document["type"], document["status"]) == (5, "urn:ovnmig:problem:unreachable", None)
    assert "ovnmig serve" in document["problems"][0]["message"]


def test_help_loads_neither_server_nor_drivers() -> None:
    script = (
        "import sys; from ovnmig.cli import run; assert run(['--help']) == 0;"
        "heavy = {'fastapi', 'uvicorn', 'ovs', 'ovsdbapp', 'numpy', 'cryptography', 'pydantic'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_documentation_names_every_command_and_exit_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert not [command for command in COMMANDS if f"ovnmig {command}" not in page]
    assert not [code for code in Exit if f"| {code.value} |" not in page]
