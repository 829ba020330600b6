"""Attributes: what is packed is found, and no length is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.conntrack import attrs as a

_LEAVES = st.lists(
    st.tuples(st.sampled_from([a.STATUS, a.TIMEOUT, a.MARK, a.ZONE, 9]), st.binary(max_size=9))
)


@given(_LEAVES)
def test_leaves_come_back_in_order(pairs: list[tuple[int, bytes]]) -> None:
    data = b"".join(a.attr(kind, payload) for kind, payload in pairs)
    found = [(path[0], data[o : o + n]) for path, o, n in a.leaves(data, 0, len(data))]
    assert found == pairs


@given(_LEAVES)
def test_nested_leaves_carry_their_whole_path(pairs: list[tuple[int, bytes]]) -> None:
    inner = b"".join(a.attr(kind, payload) for kind, payload in pairs)
    data = a.nest(a.TUPLE_ORIG, a.nest(a.TUPLE_IP, inner))
    found = [(path, data[o : o + n]) for path, o, n in a.leaves(data, 0, len(data))]
    assert found == [((a.TUPLE_ORIG, a.TUPLE_IP, kind), payload) for kind, payload in pairs]


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_walked_or_refused_and_never_left(data: bytes) -> None:
    try:
        found = list(a.leaves(data, 0, len(data)))
    except a.MalformedAttributes:
        return
    assert all(offset >= 0 and offset + length <= len(data) for _, offset, length in found)


@pytest.mark.parametrize("data", [b"\x03\0\1\0", b"\x09\0\1\0abcd", b"\0\0\0\0", b"\4"])
def test_a_length_that_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(a.MalformedAttributes):
        list(a.leaves(data, 0, len(data)))
