"""What `status` and `down` can know of a sandbox that runs, crashed, or was never complete."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devenv.host import machine, state
from devenv.host.cli import main
from devenv.host.errors import EXIT_CRASHED, EXIT_NOT_RUNNING, EXIT_USAGE, SandboxError
from devenv.host.paths import cache_dir, run_dir
from devenv.host.state import State


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "ovnmig"
    return tmp_path


def state_of(pid: int, start: int) -> State:
    return State(
        name="t",
        backend="uml",
        suite="trixie",
        ovn="25.03.0",
        kernel="",
        chassis=3,
        gateways=0,
        port=8787,
        memory_mb=3072,
        pid=pid,
        pid_start=start,
    )


def saved(current: State) -> State:
    run_dir(current.name).mkdir(parents=True)
    current.save()
    return current


def test_a_relative_cache_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir().is_absolute()


def test_a_state_is_read_back_as_it_was_saved() -> None:
    current = saved(state_of(1, 2))
    assert state.load("t") == current
    current.made_ready().save()
    loaded = state.load("t")
    assert loaded is not None
    assert loaded.ready
    assert state.names() == ["t"]


def test_half_a_state_is_none() -> None:
    run_dir("t").mkdir(parents=True)
    assert state.load("t") is None
    (run_dir("t") / state.STATE_NAME).write_text('{"name": "t"')
    assert state.load("t") is None
    (run_dir("t") / state.STATE_NAME).write_text('{"name": "t"}')
    assert state.load("t") is None


def test_a_process_number_given_to_another_process_does_not_count() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        start = state.process_start(process.pid)
        assert start is not None
        assert state_of(process.pid, start).alive()
        assert not state_of(process.pid, start - 1).alive()
        process.kill()
    assert not state_of(process.pid, start).alive()


def test_a_sandbox_whose_process_is_gone_is_told_as_crashed_and_down_cleans_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved(state_of(2**22 + 1, 1))
    (run_dir("t") / "console.log").write_text("Kernel panic\n")
    assert main(["status", "--name", "t"]) == EXIT_CRASHED
    assert "Kernel panic" in capsys.readouterr().out
    assert main(["down", "--name", "t"]) == 0
    assert not run_dir("t").exists()
    assert main(["status", "--name", "t"]) == EXIT_NOT_RUNNING


def test_down_ends_a_process_that_takes_no_commands() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        start = state.process_start(process.pid)
        assert start is not None
        saved(state_of(process.pid, start))
        assert machine.stop("t")
        assert not run_dir("t").exists()
        assert state.process_start(process.pid) is None


def test_down_of_what_does_not_run_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--name", "t"]) == 0
    assert "does not run" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [["exec", "--name", "t", "guest", "--", "true"], ["logs", "--name", "t"]])
def test_a_verb_that_needs_a_running_sandbox_says_so(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(verb) == EXIT_NOT_RUNNING
    assert "does not run" in capsys.readouterr().err


def test_a_wrong_name_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--name", "../x"]) == EXIT_USAGE
    assert "letters" in capsys.readouterr().err


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with machine.listen_rest(0) as taken:
        with pytest.raises(SandboxError) as caught:
            machine.listen_rest(taken.getsockname()[1])
        assert "--port" in caught.value.hint
        assert taken.getsockname()[0] == "127.0.0.1"


def test_clean_removes_the_cache(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(state_of(2**22 + 1, 1))
    (cache / "ovnmig/images/kernel-1").mkdir(parents=True)
    assert main(["clean"]) == 0
    assert not (cache / "ovnmig").exists()
    assert "removed" in capsys.readouterr().out
