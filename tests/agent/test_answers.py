"""What a sink answers survives the wire, and nonsense is refused."""

from __future__ import annotations

import pytest

from ovnmig.agent.answers import VANISHED_MAX, Answer, keys_of, not_applied, synced, vanished
from ovnmig.agent.frames import Decoder, Frame, FrameError, Kind, encode
from ovnmig.conntrack import Outcome
from tests.bench.conntrack import sessions


def over_the_wire(frame: Frame) -> Frame:
    decoder = Decoder()
    decoder.feed(encode(frame))
    read = decoder.next()
    assert read is not None
    return read


def test_every_entry_that_was_not_applied_has_its_reason_however_many_they_are() -> None:
    outcome = Outcome(created=7, identical=2, replaced=1)
    keys = sessions(3000).keys().tolist()
    for number, key in enumerate(keys):
        reason = "full" if number % 3 else "held"
        outcome.refuse(reason, f"entry {number}", "another" if number == 0 else "")
        outcome.name([key], reason)
    answer = Answer()
    answer.add(outcome)
    ack = over_the_wire(answer.frame(4))
    assert (ack.kind, ack.seq, answer.applied) == (Kind.ACK, 4, 10)
    assert [ack.number(name) for name in ("created", "identical", "replaced")] == [7, 2, 1]
    assert not_applied(ack) == {key: "full" if n % 3 else "held" for n, key in enumerate(keys)}
    words = ack.items("refused")
    assert words[:2] == ["held: entry 0 (held by another)", "full: entry 1"]
    assert len(words) == 20


def test_vanished_copies_go_by_zone_and_what_has_no_room_goes_next() -> None:
    many, few = sessions(VANISHED_MAX - 1).keys(), sessions(3).keys()
    frame, left = synced(Frame(Kind.SYNC, 9, {"round": 2}), {0: many, 3: few})
    first = over_the_wire(frame)
    assert (first.kind, first.seq, first.number("round"), first.fields["more"]) == (Kind.SYNCED, 9, 2, True)
    assert {index: keys.size for index, keys in vanished(first).items()} == {0: many.size, 3: 1}
    second, left = synced(Frame(Kind.SYNC, 10, {"round": 3}), left)
    assert vanished(over_the_wire(second))[3].tolist() == few[1:].tolist()
    assert left == {}


@pytest.mark.parametrize(
    ("kind", "fields", "data"),
    [
        (Kind.ACK, {"reasons": []}, b"x" * 9),
        (Kind.ACK, {"reasons": ["a"]}, b"x" * 8),
        (Kind.ACK, {"reasons": [7]}, bytes(9)),
        (Kind.SYNCED, {"zones": [[0]]}, b""),
        (Kind.SYNCED, {"zones": [[0, True]]}, b""),
        (Kind.SYNCED, {"zones": []}, bytes(8)),
        (Kind.SYNCED, {"zones": []}, bytes(7)),
    ],
)
def test_an_answer_that_cannot_be_is_refused(kind: Kind, fields: dict[str, object], data: bytes) -> None:
    with pytest.raises(FrameError):
        (not_applied if kind is Kind.ACK else vanished)(Frame(kind, 1, fields, data))


def test_keys_come_whole_or_not_at_all() -> None:
    assert keys_of(bytes([1, 0, 0, 0, 0, 0, 0, 0])).tolist() == [1]
    with pytest.raises(FrameError, match="ends inside a key"):
        keys_of(bytes(9))
