"""What a person sees while something takes long."""

from __future__ import annotations

import io
import threading

import pytest

from devenv.host.progress import Lines, Progress, human


def test_a_step_is_announced_with_its_usual_time_and_its_end() -> None:
    sink = io.StringIO()
    with Progress(sink).task("kernel", "compiling it", 240):
        pass
    first, last = sink.getvalue().splitlines()
    assert first.endswith("kernel: compiling it (usually 4.0 min)")
    assert "kernel: compiling it: done in" in last


def test_a_step_that_fails_says_so_and_passes_the_error_on() -> None:
    sink = io.StringIO()
    with pytest.raises(RuntimeError, match="boom"), Progress(sink).task("rootfs", "installing", 45):
        raise RuntimeError("boom")
    assert "rootfs: installing: failed after" in sink.getvalue()


def test_a_long_step_reminds_with_how_far_it_is() -> None:
    sink, reminded = io.StringIO(), threading.Event()

    def detail() -> str:
        reminded.set()
        return "7 of 9 objects"

    with Progress(sink, reminder_s=0.01).task("kernel", "compiling it", 240) as task:
        task.detail = detail
        assert reminded.wait(30)
    assert "still compiling it" in sink.getvalue()
    assert "7 of 9 objects" in sink.getvalue()


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0 s"), (99, "99 s"), (150, "2.5 min")])
def test_durations_read_at_a_glance(seconds: float, said: str) -> None:
    assert human(seconds) == said


def test_lines_are_cut_where_they_end_whatever_the_chunks() -> None:
    told: list[str] = []
    lines = Lines(told.append, keep=2)
    for chunk in (b"one\ntw", b"o", b"\n\nthree\n", b"no end"):
        lines.feed(chunk)
    assert told == ["one", "two", "three"]
    assert list(lines.last) == ["two", "three"]
