from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from ovnmig.logs import LogFormat, LogLevel, configure


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_what_goes_to_no_terminal_is_one_json_object_a_line() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    with structlog.contextvars.bound_contextvars(migration="m1"):
        structlog.get_logger("ovnmig.engine").info("copying", udn='blü "net"')
    logging.getLogger("a.library").warning("it %s", "warns")
    ours, theirs = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (ours["event"], ours["udn"], ours["migration"]) == ("copying", 'blü "net"', "m1")
    assert (ours["level"], ours["logger"]) == ("info", "ovnmig.engine")
    assert (theirs["event"], theirs["level"]) == ("it warns", "warning")
    assert "at" in ours
    assert "at" in theirs


def test_an_exception_stays_on_one_line() -> None:
    stream = io.StringIO()
    configure(LogFormat.JSON, stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert "broken" in line


def test_text_is_for_people_and_the_level_is_kept() -> None:
    stream = io.StringIO()
    configure(LogFormat.TEXT, LogLevel.WARNING, stream)
    structlog.get_logger("x").info("quiet")
    structlog.get_logger("x").warning("loud", n=1)
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_configuring_again_writes_nothing_twice() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    configure(stream=stream)
    structlog.get_logger("x").info("once")
    assert len(stream.getvalue().splitlines()) == 1
