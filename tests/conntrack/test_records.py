"""The form of records between agents: exact for good ones, a clear error for all others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.conntrack.records import MAX_ROWS, BadRecords, Batch, Group, decode, encode
from ovnmig.conntrack.shape import shape_of
from ovnmig.conntrack.spec import L4, BadSpec, Flow, Spec
from ovnmig.conntrack.transform import Transformer
from tests.conntrack.chunks import chunk_of
from tests.conntrack.generate import Dumped, dumped


def _batch(entries: list[Dumped]) -> Batch:
    read = Transformer().read(chunk_of([entry.message() for entry in entries]))
    return Batch(tuple(group for groups in read.zones.values() for group in groups))


def _udp(rows: int) -> Batch:
    shape = shape_of(Spec(2, Flow(17, L4.PORTS)))
    values = (np.zeros((rows, shape.width), dtype=np.uint32) & shape.keep) | shape.force
    return Batch((Group(shape, values),))


def _tcp(**columns: int) -> Batch:
    shape = shape_of(Spec(2, Flow(6, L4.PORTS), info=True))
    values = np.zeros((1, shape.width), dtype=np.uint32) | shape.force
    for name, byte in columns.items():
        values[0, shape.at(name)] = np.frombuffer(bytes((byte, 0, 0, 0)), dtype=np.uint32)[0]
    return Batch((Group(shape, values),))


@given(st.lists(dumped(), max_size=8))
def test_records_come_back_as_they_were_sent(entries: list[Dumped]) -> None:
    batch = _batch(entries)
    again = decode(encode(batch))
    assert [group.shape.spec for group in again] == [group.shape.spec for group in batch]
    assert all((x.values == y.values).all() for x, y in zip(again, batch, strict=True))
    assert (again.keys() == batch.keys()).all()
    assert (again.prints() == batch.prints()).all()


@given(st.lists(dumped(), min_size=1, max_size=4), st.data())
def test_any_damage_is_refused_or_gives_records_that_a_transform_could_have_made(
    entries: list[Dumped], data: st.DataObject
) -> None:
    wire = bytearray(encode(_batch(entries)))
    for _ in range(data.draw(st.integers(1, 4))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    try:
        batch = decode(wire)
    except BadRecords:
        return
    for group in batch:
        group.shape.spec.check()
        assert (((group.values & group.shape.keep) | group.shape.force) == group.values).all()


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_do_more_than_raise_bad_records(data: bytes) -> None:
    try:
        batch = decode(data)
    except BadRecords:
        return
    assert encode(batch)[4:] == data[4:]


@given(st.lists(dumped(), min_size=1, max_size=3), st.data())
def test_a_batch_cut_anywhere_is_refused_whole(entries: list[Dumped], data: st.DataObject) -> None:
    wire = encode(_batch(entries))
    with pytest.raises(BadRecords):
        decode(wire[: data.draw(st.integers(0, len(wire) - 1))])


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(BadRecords, match="follow the last group"):
        decode(encode(_udp(1)) + b"\0")


@pytest.mark.parametrize("step", [-1, 1])
def test_a_table_of_another_width_than_its_spec_is_refused(step: int) -> None:
    wire = bytearray(encode(_udp(0)))
    columns = int.from_bytes(wire[-2:], "big")
    wire[-2:] = (columns + step).to_bytes(2, "big")
    with pytest.raises(BadRecords, match=f"a table of {columns + step} columns"):
        decode(wire)


def test_another_version_is_refused_by_its_number() -> None:
    wire = bytearray(encode(_udp(1)))
    wire[0] = 9
    with pytest.raises(BadRecords, match="version 9 is not 1"):
        decode(wire)


@pytest.mark.parametrize(("name", "value"), [("state", 10), ("wscale_orig", 15), ("wscale_reply", 15)])
def test_values_the_kernel_would_refuse_are_refused_before(name: str, value: int) -> None:
    assert len(decode(encode(_tcp(**{name: value - 1})))) == 1
    with pytest.raises(BadRecords, match=name):
        decode(encode(_tcp(**{name: value})))


def test_an_sctp_state_the_kernel_would_refuse_is_refused_before() -> None:
    shape = shape_of(Spec(2, Flow(132, L4.PORTS), info=True))
    values = np.zeros((1, shape.width), dtype=np.uint32) | shape.force
    for state, good in ((8, True), (9, False)):
        values[0, shape.at("state")] = np.frombuffer(bytes((state, 0, 0, 0)), dtype=np.uint32)[0]
        wire = encode(Batch((Group(shape, values),)))
        if good:
            assert len(decode(wire)) == 1
        else:
            with pytest.raises(BadRecords, match="state 9 is above 8"):
                decode(wire)


@pytest.mark.parametrize("flags", [0x28, 0x00, 0x18])
def test_flags_that_must_not_travel_are_refused(flags: int) -> None:
    with pytest.raises(BadRecords, match="bits"):
        decode(encode(_tcp(flags_orig=flags)))


def test_a_batch_above_the_limit_is_neither_made_nor_read() -> None:
    with pytest.raises(ValueError, match="split it"):
        encode(_udp(MAX_ROWS + 1))
    parts = list(_udp(MAX_ROWS + 1).split())
    assert [len(part) for part in parts] == [MAX_ROWS, 1]
    wire = encode(parts[0])
    doubled = wire[:2] + (2).to_bytes(2, "big") + wire[4:] + encode(parts[1])[4:]
    with pytest.raises(BadRecords, match="more than"):
        decode(doubled)


@given(st.lists(dumped(), min_size=1, max_size=20), st.integers(1, 7))
def test_splitting_keeps_every_record_once(entries: list[Dumped], rows: int) -> None:
    batch = _batch(entries)
    parts = list(batch.split(rows))
    assert all(0 < len(part) <= rows for part in parts)
    joined = np.concatenate([part.prints() for part in parts])
    assert sorted(joined) == sorted(batch.prints())


@pytest.mark.parametrize(
    "spec",
    [
        Spec(3, Flow(17, L4.PORTS)),
        Spec(2, Flow(17, L4.ICMP, 8)),
        Spec(2, Flow(1, L4.ICMP, 3)),
        Spec(2, Flow(6, L4.PORTS)),
        Spec(2, Flow(17, L4.PORTS), info=True),
        Spec(2, Flow(6, L4.PORTS), info=True, helper="a" * 16),
        Spec(2, Flow(6, L4.PORTS), info=True, helper="../x"),
        Spec(2, Flow(17, L4.PORTS, 8)),
    ],
)
def test_a_spec_no_entry_can_have_is_refused(spec: Spec) -> None:
    with pytest.raises(BadSpec):
        spec.check()
    with pytest.raises(BadSpec):
        Spec.decode(spec.encode())


@given(st.lists(dumped(), min_size=1, max_size=3))
def test_a_spec_comes_back_from_its_wire_form(entries: list[Dumped]) -> None:
    for group in _batch(entries):
        assert Spec.decode(group.shape.spec.encode()) == group.shape.spec
