"""Runs programs in a running sandbox: what `exec`, `run`, the tests and the demo use.

    channel = Channel.of("sandbox")
    done = channel.run(["ovs-vsctl", "show"], node="ovn-chassis-1")
    print(done.returncode, done.stdout)

Each call is a connection of its own, so calls from several threads run side by side.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from devenv.host import wire
from devenv.host.errors import EXIT_CRASHED, EXIT_NOT_RUNNING, ChannelError
from devenv.host.paths import run_dir

CONNECT_TIMEOUT_S = 5.0
ANSWER_MARGIN_S = 15.0
FEEDER_LOOK_S = 0.1
FEEDER_END_S = 1.0


@dataclass(frozen=True)
class Completed:
    """What a program said and how it ended. `returncode` is negative for a signal, as in `subprocess`."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    duration_s: float
    timed_out: bool = False

    def check(self) -> Completed:
        """Returns itself; raises ChannelError with the program's own words when it failed."""
        if self.returncode != 0 or self.timed_out:
            how = "ran out of time" if self.timed_out else f"ended with {self.returncode}"
            words = (self.stderr or self.stdout).strip()
            raise ChannelError(f"`{shlex.join(self.argv)}` {how}: {words}")
        return self


def connect_unix(path: Path, timeout_s: float) -> socket.socket:
    """Connects to a UNIX socket whose path may be longer than the 107 bytes a socket address holds."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout_s)
    folder = -1
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        sock.connect(f"/proc/self/fd/{folder}/{path.name}")
    except BaseException:
        sock.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
    return sock


class Channel:
    """The way into one sandbox, by the path of its socket."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path

    @classmethod
    def of(cls, name: str = "sandbox") -> Channel:
        """The channel of the sandbox with this name, whether it runs or not."""
        return cls(run_dir(name) / "channel.sock")

    def run(
        self,
        argv: Sequence[str],
        *,
        node: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | None = None,
        timeout_s: float | None = 60.0,
        check: bool = False,
    ) -> Completed:
        """Runs a program to its end and returns what it said.

        `node` is a node, a namespace, or None for the guest itself; `timeout_s` None waits for ever. With
        `check` a failure raises. Raises ChannelError when the sandbox does not answer or refuses the call.
        """
        out, err = bytearray(), bytearray()
        started = time.monotonic()
        document = self._call(argv, node, env, cwd, stdin, timeout_s, out.extend, err.extend)
        done = Completed(
            argv=tuple(argv),
            returncode=int(document["code"]),
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            duration_s=time.monotonic() - started,
            timed_out=bool(document.get("timed_out")),
        )
        return done.check() if check else done

    def stream(
        self,
        argv: Sequence[str],
        on_stdout: Callable[[bytes], object],
        on_stderr: Callable[[bytes], object],
        *,
        node: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: BinaryIO | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Runs a program, hands over what it says as it says it, and returns its exit code."""
        return int(self._call(argv, node, env, cwd, stdin, timeout_s, on_stdout, on_stderr)["code"])

    def ping(self, timeout_s: float = CONNECT_TIMEOUT_S) -> float:
        """Returns the guest's uptime in seconds; raises ChannelError when it does not answer."""
        return float(self._simple("ping", timeout_s)["uptime_s"])

    def power_off(self, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Asks the guest to power off; it goes down within a second after the answer."""
        self._simple("poweroff", timeout_s)

    def _simple(self, operation: str, timeout_s: float) -> dict[str, Any]:
        with self._connection(timeout_s) as sock:
            sock.sendall(wire.pack_json(wire.REQUEST, {"op": operation}))
            return self._receive(sock, lambda _: None, lambda _: None)

    def _call(
        self,
        argv: Sequence[str],
        node: str | None,
        env: Mapping[str, str] | None,
        cwd: str | None,
        stdin: bytes | str | BinaryIO | None,
        timeout_s: float | None,
        on_stdout: Callable[[bytes], object],
        on_stderr: Callable[[bytes], object],
    ) -> dict[str, Any]:
        request = {
            "op": "run",
            "argv": list(argv),
            "node": node,
            "env": dict(env or {}),
            "cwd": cwd,
            "timeout_s": timeout_s,
            "stdin": stdin is not None,
        }
        with self._connection(CONNECT_TIMEOUT_S) as sock:
            sock.settimeout(None if timeout_s is None else timeout_s + ANSWER_MARGIN_S)
            sock.sendall(wire.pack_json(wire.REQUEST, request))
            if stdin is None:
                return self._receive(sock, on_stdout, on_stderr)
            over = threading.Event()
            feeder = threading.Thread(target=_feed, args=(sock, stdin, over), daemon=True)
            feeder.start()
            try:
                return self._receive(sock, on_stdout, on_stderr)
            finally:
                # What the caller's standard input holds next is not this program's any more.
                over.set()
                feeder.join(FEEDER_END_S)

    @contextlib.contextmanager
    def _connection(self, timeout_s: float) -> Iterator[socket.socket]:
        try:
            sock = connect_unix(self._socket_path, timeout_s)
        except OSError as error:
            hint = "start it with: devenv/sandbox up"
            raise ChannelError("the sandbox does not run", hint=hint, code=EXIT_NOT_RUNNING) from error
        try:
            yield sock
        except OSError as error:
            what = f"the sandbox does not answer: {error}"
            raise ChannelError(what, code=EXIT_CRASHED) from error
        finally:
            sock.close()

    def _receive(
        self, sock: socket.socket, on_stdout: Callable[[bytes], object], on_stderr: Callable[[bytes], object]
    ) -> dict[str, Any]:
        def read_exactly(size: int) -> bytes:
            data = bytearray()
            while len(data) < size:
                chunk = sock.recv(min(size - len(data), wire.CHUNK))
                if not chunk:
                    raise ConnectionError("the connection ended in the middle of an answer")
                data += chunk
            return bytes(data)

        while True:
            kind, payload = wire.read_frame(read_exactly)
            if kind == wire.STDOUT:
                on_stdout(payload)
            elif kind == wire.STDERR:
                on_stderr(payload)
            elif kind == wire.EXIT:
                document = wire.parse_json(payload)
                if "error" in document:
                    raise ChannelError(str(document["error"]), code=int(document["code"]))
                return document
            else:
                raise ChannelError(f"the sandbox sent a frame of an unknown kind {kind!r}")


def _feed(sock: socket.socket, source: bytes | str | BinaryIO, over: threading.Event) -> None:
    """Sends standard input, then its end; a sandbox that no longer listens ends it quietly."""
    try:
        if isinstance(source, (bytes, str)):
            data = source.encode() if isinstance(source, str) else source
            for start in range(0, len(data), wire.CHUNK):
                sock.sendall(wire.pack(wire.STDIN, data[start : start + wire.CHUNK]))
        else:
            while not over.is_set():
                if not select.select([source], [], [], FEEDER_LOOK_S)[0]:
                    continue
                if not (chunk := os.read(source.fileno(), wire.CHUNK)):
                    break
                sock.sendall(wire.pack(wire.STDIN, chunk))
        sock.sendall(wire.pack(wire.STDIN))
    except OSError:
        return
