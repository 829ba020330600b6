"""The command channel against a real daemon: argv, environment, input, output, exit codes, many at once."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devenv.host import wire
from devenv.host.channel import Channel, connect_unix
from devenv.host.errors import EXIT_CRASHED, EXIT_NOT_RUNNING, ChannelError


@pytest.fixture
def channel(daemon_socket: Path) -> Channel:
    return Channel(daemon_socket)


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_program_gets_its_arguments_as_they_are(channel: Channel) -> None:
    words = ["a b", "", 'say "no"', "ä→", "$HOME", "line\nbreak"]
    done = channel.run([sys.executable, "-c", "import sys; print(repr(sys.argv[1:]))", *words])
    assert done.returncode == 0
    assert done.stdout == repr(words) + "\n"


def test_output_and_errors_come_apart_with_the_exit_code(channel: Channel) -> None:
    done = channel.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_a_signal_is_told_as_a_negative_code(channel: Channel) -> None:
    assert channel.run(["sh", "-c", "kill -9 $$"]).returncode == -9


def test_environment_and_folder_are_the_callers(channel: Channel, tmp_path: Path) -> None:
    done = channel.run(["sh", "-c", 'echo "$GREETING"; pwd'], env={"GREETING": "hallo"}, cwd=str(tmp_path))
    assert done.stdout.splitlines() == ["hallo", str(tmp_path)]


@pytest.mark.parametrize("size", [0, 1, wire.CHUNK, 3 * wire.CHUNK + 17])
def test_standard_input_arrives_whole_and_ends(channel: Channel, size: int) -> None:
    done = channel.run(["wc", "-c"], stdin=b"x" * size)
    assert int(done.stdout) == size


def test_without_input_a_program_that_reads_sees_the_end_at_once(channel: Channel) -> None:
    assert channel.run(["cat"]).stdout == ""


def test_much_output_arrives_whole(channel: Channel) -> None:
    assert len(channel.run(["head", "-c", "5000000", "/dev/zero"]).stdout) == 5_000_000


def test_output_that_is_no_text_is_handed_over_as_bytes(channel: Channel) -> None:
    told = bytearray()
    code = channel.stream(["printf", "\\377\\000\\001"], told.extend, lambda _: None)
    assert (code, bytes(told)) == (0, b"\xff\x00\x01")


def test_a_program_that_takes_too_long_is_ended_with_its_children(channel: Channel) -> None:
    done = channel.run(["sh", "-c", "sleep 600 & echo $!; wait"], timeout_s=0.5)
    assert done.timed_out
    assert done.returncode != 0
    assert wait_until_gone(int(done.stdout))


def test_a_caller_that_goes_away_ends_its_program(daemon_socket: Path) -> None:
    sock = connect_unix(daemon_socket, 5)
    request = {"op": "run", "argv": ["sh", "-c", "echo $$; sleep 600"], "cwd": "/"}
    sock.sendall(wire.pack_json(wire.REQUEST, request))
    kind, length = wire.unpack_header(sock.recv(wire.HEADER.size, socket.MSG_WAITALL))
    assert kind == wire.STDOUT
    pid = int(sock.recv(length, socket.MSG_WAITALL))
    sock.close()
    assert wait_until_gone(pid)


def test_a_daemon_left_behind_does_not_hold_the_call(channel: Channel) -> None:
    done = channel.run(["sh", "-c", "sleep 600 & echo $!"], timeout_s=60)
    pid = int(done.stdout)
    assert done.returncode == 0
    os.kill(pid, 9)


def test_calls_run_side_by_side(channel: Channel, tmp_path: Path) -> None:
    # Each waits for a file that only the next one makes: one after the other they would never end.
    def call(number: int) -> int:
        script = 'touch "$1/$2"; while ! test -e "$1/$3"; do sleep 0.05; done'
        words = [str(tmp_path), str(number), str((number + 1) % 8)]
        return channel.run(["sh", "-c", script, "sh", *words], timeout_s=30).returncode

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [0] * 8


def test_an_unknown_node_is_refused_with_the_names_there_are(channel: Channel) -> None:
    with pytest.raises(
        ChannelError, match="no node or namespace is named 'ovn-chassis-99'; there are: guest"
    ):
        channel.run(["true"], node="ovn-chassis-99")


@pytest.mark.parametrize("node", ["../guest", "a/b", ".."])
def test_a_node_name_cannot_leave_the_folder_of_namespaces(channel: Channel, node: str) -> None:
    with pytest.raises(ChannelError):
        channel.run(["true"], node=node)


def test_an_unknown_program_is_refused_with_its_name(channel: Channel) -> None:
    with pytest.raises(ChannelError, match="no-such-program") as caught:
        channel.run(["no-such-program"])
    assert caught.value.code == 127


def test_check_raises_with_the_programs_own_words(channel: Channel) -> None:
    with pytest.raises(ChannelError, match="ended with 4: it is broken"):
        channel.run(["sh", "-c", "echo it is broken >&2; exit 4"], check=True)


def test_ping_tells_the_uptime(channel: Channel) -> None:
    assert channel.ping() > 0


def test_a_socket_that_nobody_listens_at_is_a_sandbox_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(ChannelError) as caught:
        Channel(tmp_path / "channel.sock").run(["true"])
    assert caught.value.code == EXIT_NOT_RUNNING


def test_a_sandbox_that_goes_away_in_the_middle_is_an_error_and_no_hang(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "channel.sock"))
        listener.listen()

        def answer_half() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(wire.pack(wire.STDOUT, b"half an answer")[:-5])
            connection.close()

        thread = threading.Thread(target=answer_half)
        thread.start()
        with pytest.raises(ChannelError) as caught:
            Channel(tmp_path / "channel.sock").run(["true"])
        thread.join()
    assert caught.value.code == EXIT_CRASHED


def test_the_path_of_the_socket_may_be_longer_than_a_socket_address(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        handle = os.open(folder, os.O_PATH)
        listener.bind(f"/proc/self/fd/{handle}/channel.sock")
        os.close(handle)
        listener.listen()
        connect_unix(folder / "channel.sock", 5).close()
