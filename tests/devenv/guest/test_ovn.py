"""OVSDB's JSON notation read as Python's own values, and upcall handlers counted as threads."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from devenv.guest.ovn import handler_threads, plain


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("text", "text"),
        (7, 7),
        (["uuid", "aaa"], "aaa"),
        (["set", []], []),
        (["set", [["uuid", "aaa"], ["uuid", "bbb"]]], ["aaa", "bbb"]),
        (["map", [["key", "value"], ["other", ["uuid", "ccc"]]]], {"key": "value", "other": "ccc"}),
    ],
)
def test_values_sets_and_maps_are_read(written: Any, meant: Any) -> None:
    assert plain(written) == meant


def test_a_process_without_handler_threads_has_none() -> None:
    assert handler_threads(os.getpid()) == 0


def test_handler_threads_are_counted_and_others_are_not() -> None:
    named, done = threading.Barrier(3), threading.Event()

    def live(name: str) -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name, encoding="ascii")
        named.wait()
        done.wait()

    threads = [threading.Thread(target=live, args=(name,)) for name in ("handler7", "revalidator8")]
    for thread in threads:
        thread.start()
    named.wait()
    try:
        assert handler_threads(os.getpid()) == 1
    finally:
        done.set()
        for thread in threads:
            thread.join()
