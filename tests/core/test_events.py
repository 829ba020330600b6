from __future__ import annotations

from dataclasses import is_dataclass
from typing import get_args

from ovnmig.core import events


def test_the_list_of_types_is_the_union() -> None:
    assert set(events.EVENT_TYPES) == set(get_args(events.Event))


def test_every_event_is_an_immutable_value() -> None:
    for kind in events.EVENT_TYPES:
        assert is_dataclass(kind)
        assert "__setattr__" in vars(kind)  # a frozen dataclass refuses
        assert "__dict__" not in dir(kind)
