"""Says what is being done, how long it usually takes, and how long it has taken so far."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

REMINDER_S = 20.0


def human(seconds: float) -> str:
    """Returns a duration a person reads at a glance."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min"


class Task:
    """One running step; `detail` is a function that tells how far it is."""

    def __init__(self, label: str, what: str, usual_s: float) -> None:
        self.label = label
        self.what = what
        self.usual_s = usual_s
        self.started = time.monotonic()
        self.detail: Callable[[], str] | None = None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started


class Progress:
    """Prints the steps of several threads, and a reminder while one takes long."""

    def __init__(self, sink: TextIO = sys.stderr, reminder_s: float = REMINDER_S) -> None:
        self._sink = sink
        self._reminder_s = reminder_s
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._tasks: list[Task] = []

    def say(self, label: str, text: str) -> None:
        """Prints one line with the time since the start."""
        with self._lock:
            elapsed = human(time.monotonic() - self._started)
            print(f"[{elapsed:>7}] {label}: {text}", file=self._sink, flush=True)

    @contextlib.contextmanager
    def task(self, label: str, what: str, usual_s: float) -> Iterator[Task]:
        """Announces a step, reminds while it runs, and says how long it took."""
        task = Task(label, what, usual_s)
        done = threading.Event()
        self.say(label, f"{what} (usually {human(usual_s)})")
        reminder = threading.Thread(target=self._remind, args=(task, done), daemon=True)
        reminder.start()
        try:
            yield task
        except BaseException:
            self.say(label, f"{what}: failed after {human(task.elapsed_s)}")
            raise
        else:
            self.say(label, f"{what}: done in {human(task.elapsed_s)}")
        finally:
            done.set()

    def _remind(self, task: Task, done: threading.Event) -> None:
        while not done.wait(self._reminder_s):
            detail = f", {task.detail()}" if task.detail else ""
            self.say(
                task.label, f"still {task.what}: {human(task.elapsed_s)} of {human(task.usual_s)}{detail}"
            )


class Lines:
    """Cuts what a program says into lines, hands each over, and keeps the last ones."""

    def __init__(self, on_line: Callable[[str], object], keep: int = 8) -> None:
        self._on_line = on_line
        self._rest = ""
        self.last: deque[str] = deque(maxlen=keep)

    def feed(self, data: bytes) -> None:
        """Takes the next bytes; a line is handed over when it is complete."""
        *lines, self._rest = (self._rest + data.decode(errors="replace")).split("\n")
        for line in filter(None, lines):
            self.last.append(line)
            self._on_line(line)
