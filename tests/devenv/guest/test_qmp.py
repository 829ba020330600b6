"""Conversations with QEMU, against a small server that answers as QEMU and the VM's program do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devenv.guest.qmp import Line, Qmp, clock_offset_s
from devenv.guest.shell import ClusterError

Serve = Callable[[str, Callable[[str], list[str]]], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves one conversation: a greeting (or none), then the lines that a function answers with."""
    threads: list[threading.Thread] = []

    def start(greeting: str, answer: Callable[[str], list[str]]) -> Path:
        path = tmp_path / "socket"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(1)

        def talk() -> None:
            with listener, listener.accept()[0] as peer, peer.makefile("rw") as lines:
                if greeting:
                    lines.write(greeting + "\n")
                    lines.flush()
                for line in lines:
                    for said in answer(line.strip()):
                        lines.write(said + "\n")
                    lines.flush()

        threads.append(threading.Thread(target=talk))
        threads[-1].start()
        return path

    yield start
    for thread in threads:
        thread.join(10)


def qemu(line: str) -> list[str]:
    asked = json.loads(line)
    stop = {"event": "STOP", "timestamp": {"seconds": 12, "microseconds": 500000}}
    if asked["execute"] == "migrate":
        return [json.dumps(stop), json.dumps({"return": asked["arguments"]})]
    if asked["execute"] == "fly":
        return [json.dumps({"error": {"class": "CommandNotFound", "desc": "no such command"}})]
    return [json.dumps({"return": {}})]


def test_a_command_is_answered_and_events_in_between_are_kept(serve: Serve) -> None:
    with Qmp(serve('{"QMP": {}}', qemu)) as monitor:
        assert monitor.command("migrate", uri="tcp:x", some_flag=True) == {"uri": "tcp:x", "some-flag": True}
        assert monitor.at("STOP") == 12.5
        assert monitor.at("RESUME") == 0


def test_a_refusal_is_told_in_qemus_words(serve: Serve) -> None:
    with (
        Qmp(serve('{"QMP": {}}', qemu)) as monitor,
        pytest.raises(ClusterError, match="fly: no such command"),
    ):
        monitor.command("fly")


def test_nobody_there_is_an_error_that_names_the_socket(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="nobody"):
        Line(tmp_path / "nobody")


def test_the_offset_of_the_clock_is_that_of_the_quickest_answer(serve: Serve) -> None:
    # Two readings of the machine's clock around each question: the second question is the quickest.
    readings = iter([100.0, 101.0, 200.0, 200.2, 300.0, 302.0, 400.0, 401.0, 500.0, 501.0])
    with Line(serve("", lambda _: ["now 50000000"])) as line:
        assert clock_offset_s(line, lambda: next(readings)) == pytest.approx(150.1)
