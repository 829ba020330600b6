from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.agent import frames
from ovnmig.agent.frames import Decoder, Frame, FrameError, Kind

BULK = (Kind.ENTRIES, Kind.DELETE, Kind.ACK, Kind.SYNCED)
fields = st.dictionaries(
    st.text(max_size=8),
    st.none() | st.booleans() | st.integers(0, 1 << 60) | st.text(max_size=20),
    max_size=5,
)
control = st.builds(
    Frame, st.sampled_from([kind for kind in Kind if kind not in BULK]), st.integers(0, 2**32 - 1), fields
)
bulk = st.builds(Frame, st.sampled_from(BULK), st.integers(0, 2**32 - 1), fields, st.binary(max_size=300))


def read_all(decoder: Decoder) -> list[Frame]:
    out = []
    while (frame := decoder.next()) is not None:
        out.append(frame)
    return out


@given(st.lists(control | bulk, max_size=6), st.integers(1, 50))
def test_frames_survive_any_cutting_of_the_bytes(sent: list[Frame], cut: int) -> None:
    wire = b"".join(frames.encode(frame) for frame in sent)
    decoder = Decoder()
    got = []
    for start in range(0, len(wire), cut):
        decoder.feed(wire[start : start + cut])
        got += read_all(decoder)
    assert got == sent
    assert not decoder.incomplete


@given(st.binary(max_size=400))
def test_noise_gives_frames_or_a_frame_error_and_nothing_else(noise: bytes) -> None:
    decoder = Decoder()
    decoder.feed(noise)
    try:
        read_all(decoder)
    except FrameError:
        with pytest.raises(FrameError, match="already broken"):
            decoder.next()


@given(st.lists(control | bulk, min_size=1, max_size=4), st.data())
def test_a_changed_byte_never_changes_the_frames_before_it(sent: list[Frame], data: st.DataObject) -> None:
    parts = [frames.encode(frame) for frame in sent]
    wire = bytearray(b"".join(parts))
    at = data.draw(st.integers(0, len(wire) - 1))
    wire[at] ^= data.draw(st.integers(1, 255))
    whole, length = 0, 0
    for part in parts:
        if length + len(part) > at:
            break
        length += len(part)
        whole += 1
    decoder = Decoder()
    decoder.feed(bytes(wire))
    got = []
    try:
        while (frame := decoder.next()) is not None:
            got.append(frame)
    except FrameError:
        pass
    assert got[:whole] == sent[:whole]


def head(length: int, kind: int, flags: int = 0) -> bytes:
    return struct.pack("!IBBHI", length, kind, flags, 0, 1)


def test_a_frame_above_its_limit_is_refused_before_its_body_arrives() -> None:
    for kind, limit in ((Kind.HELLO, frames.MAX_CONTROL), (Kind.ENTRIES, frames.MAX_BULK)):
        decoder = Decoder()
        decoder.feed(head(limit + 1, kind))
        with pytest.raises(FrameError, match="above the limit"):
            decoder.next()


def test_an_unknown_kind_is_skipped_when_optional_and_refused_when_not() -> None:
    decoder = Decoder()
    decoder.feed(head(3, 99, frames.OPTIONAL) + b"abc" + frames.encode(Frame(Kind.SYNC, 2, {"round": 1})))
    assert decoder.next() == Frame(Kind.SYNC, 2, {"round": 1})
    decoder.feed(head(3, 99))
    with pytest.raises(FrameError, match="unknown"):
        decoder.next()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"1" * 5000])
def test_a_body_that_is_not_an_object_is_refused(body: bytes) -> None:
    decoder = Decoder()
    decoder.feed(head(len(body), Kind.HELLO) + body)
    with pytest.raises(FrameError, match="JSON"):
        decoder.next()


@pytest.mark.parametrize("body", [b"", b"\0\0\0\7{}", b"\xff\xff\xff\xff{}"])
def test_a_bulk_body_whose_fields_do_not_fit_is_refused(body: bytes) -> None:
    decoder = Decoder()
    decoder.feed(head(len(body), Kind.ENTRIES) + body)
    with pytest.raises(FrameError, match="ENTRIES"):
        decoder.next()


def test_unknown_members_are_ignored_and_wrong_types_named() -> None:
    hello = Frame(Kind.HELLO, 0, {"major": 1, "udn": 7, "flag": True, "zones": {}, "new": {"deep": 1}})
    frames.check_version(hello)
    for read in (
        lambda: hello.text("udn"),
        lambda: hello.number("flag"),
        lambda: hello.number("epoch"),
        lambda: hello.items("zones"),
    ):
        with pytest.raises(FrameError, match="HELLO has no usable"):
            read()
    assert hello.number("epoch", 0) == 0
    assert hello.items("absent") == []


def test_another_major_version_is_refused_and_a_newer_minor_one_is_not() -> None:
    frames.check_version(Frame(Kind.HELLO, 0, {"major": frames.MAJOR, "minor": 99}))
    with pytest.raises(FrameError, match="stream version 2"):
        frames.check_version(Frame(Kind.HELLO, 0, {"major": 2}))


def test_a_frame_too_big_to_send_is_the_senders_mistake() -> None:
    with pytest.raises(ValueError, match="above the limit"):
        frames.encode(Frame(Kind.HELLO, 0, {"x": json.dumps("y" * frames.MAX_CONTROL)}))
