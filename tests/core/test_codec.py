from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Address, IPv6Interface, ip_address, ip_interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.core.codec import CodecError, from_plain, to_plain
from ovnmig.core.udn import Address


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    number: int
    name: str = "leaf"


@dataclass(frozen=True)
class Tree:
    either: int | str | None
    address: Address
    four: IPv4Address
    six: IPv6Interface
    pairs: tuple[tuple[Colour, float], ...] = ()
    leaves: Mapping[str, Leaf] = field(default_factory=dict)
    ready: bool = False
    best: Leaf | None = None


TREE = Tree(
    either=3,
    address=ip_address("fd00::1"),
    four=IPv4Address("10.0.0.1"),
    six=IPv6Interface("fd00::1/64"),
    pairs=((Colour.RED, 1.5),),
    leaves={"x": Leaf(1)},
    best=Leaf(2, "b"),
)


def plain() -> dict[str, object]:
    made = to_plain(TREE)
    assert isinstance(made, dict)
    return made


def test_every_kind_of_field_comes_back_as_it_was() -> None:
    assert from_plain(Tree, plain()) == TREE


@given(st.one_of(st.none(), st.integers(), st.text()))
def test_a_field_of_several_types_keeps_its_type(value: int | str | None) -> None:
    found = from_plain(Tree, {**plain(), "either": value})
    assert found.either == value
    assert type(found.either) is type(value)


def test_unknown_fields_are_ignored_and_missing_ones_take_their_default() -> None:
    made = {**plain(), "from_the_future": {"a": 1}}
    del made["best"]
    del made["leaves"]
    assert from_plain(Tree, made).best is None
    assert from_plain(Tree, made).leaves == {}


def test_whole_numbers_are_read_as_floats_where_floats_are_meant() -> None:
    assert from_plain(Tree, {**plain(), "pairs": [["red", 2]]}).pairs == ((Colour.RED, 2.0),)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"either": 1.5}, "Tree.either"),
        ({"address": "10.0.0.256"}, "Tree.address"),
        ({"address": 7}, "Tree.address"),
        ({"four": "fd00::1"}, "Tree.four"),
        ({"four": 7}, "Tree.four"),
        ({"pairs": 7}, "Tree.pairs"),
        ({"pairs": [["red"]]}, r"Tree.pairs\[0\]"),
        ({"pairs": [["blue", 1]]}, r"Tree.pairs\[0\]\[0\]"),
        ({"pairs": [["red", "x"]]}, r"Tree.pairs\[0\]\[1\]"),
        ({"leaves": []}, "Tree.leaves"),
        ({"leaves": {"x": {}}}, "Tree.leaves.x.number is missing"),
        ({"best": [1]}, "Tree.best"),
        ({"ready": 1}, "Tree.ready"),
    ],
)
def test_data_that_does_not_fit_is_refused_with_its_place(change: dict[str, object], place: str) -> None:
    with pytest.raises(CodecError, match=place):
        from_plain(Tree, {**plain(), **change})


def test_a_value_without_a_plain_form_is_refused() -> None:
    with pytest.raises(CodecError, match="cannot store a object"):
        to_plain(object())
    with pytest.raises(CodecError, match="cannot store a type"):
        to_plain(Leaf)


def test_interfaces_are_not_mistaken_for_addresses() -> None:
    assert to_plain(ip_interface("10.0.0.1/24")) == "10.0.0.1/24"
