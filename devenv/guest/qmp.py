"""Conversations with one QEMU: its own protocol (QMP), and the second serial port of the VM that it runs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devenv.guest.shell import ClusterError

ANSWER_TIMEOUT_S = 60.0
CLOCK_SAMPLES = 5


class Line:
    """A conversation line by line over a UNIX socket. Raises ClusterError when nobody is there or answers."""

    def __init__(self, path: Path, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise ClusterError(f"{path}: no QEMU answers there: {error}") from error
        self._reader = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()
        self._socket.close()

    def send(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\n")

    def receive(self) -> str:
        """The next line. Raises ClusterError when none comes."""
        try:
            line = self._reader.readline()
        except OSError as error:
            raise ClusterError(f"{self._path}: no answer: {error}") from error
        if not line:
            raise ClusterError(f"{self._path}: QEMU ended the conversation")
        return line.decode(errors="replace").strip()

    def ask(self, text: str) -> str:
        """Says a line and returns the answer."""
        self.send(text)
        return self.receive()


class Qmp(Line):
    """QEMU's own protocol. `events` holds what QEMU told unasked, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.events: list[dict[str, Any]] = []
        self.receive()
        self.command("qmp_capabilities")

    def command(self, name: str, **arguments: Any) -> Any:
        """Returns QEMU's answer. Raises ClusterError with QEMU's words when it refuses."""
        words = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.send(json.dumps({"execute": name, "arguments": words}))
        while True:
            said = json.loads(self.receive())
            if "event" in said:
                self.events.append(said)
            elif "error" in said:
                raise ClusterError(f"QEMU refuses {name}: {said['error']['desc']}")
            else:
                return said["return"]

    def at(self, event: str) -> float:
        """When the last event of this name was (Unix seconds); 0 when there was none."""
        for said in reversed(self.events):
            if said["event"] == event:
                return float(said["timestamp"]["seconds"]) + float(said["timestamp"]["microseconds"]) / 1e6
        return 0.0


def clock_offset_s(control: Line, now: Callable[[], float] = time.time) -> float:
    """What to add to the VM's clock for the machine's, by the quickest of some questions."""
    best: tuple[float, float] = (float("inf"), 0.0)
    for _ in range(CLOCK_SAMPLES):
        asked_s = now()
        guest_s = int(control.ask("now").split()[1]) / 1e6
        answered_s = now()
        best = min(best, (answered_s - asked_s, (asked_s + answered_s) / 2 - guest_s))
    return best[1]
