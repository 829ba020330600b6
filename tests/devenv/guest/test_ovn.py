"""OVSDB's JSON notation, read as Python's own values."""

from __future__ import annotations

from typing import Any

import pytest

from devenv.guest.ovn import plain


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
