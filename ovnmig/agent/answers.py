"""What a sink answers, as bytes: which entries were not applied, and which copies have vanished."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from ovnmig.agent.frames import Frame, FrameError, Kind
from ovnmig.conntrack import Hashes, Outcome, from_wire, to_wire

WORDS: Final = 20
"""Refused entries that an answer names."""
VANISHED_MAX: Final = 200_000
"""Vanished entries in one answer; the rest goes with the next."""
_NOT_APPLIED = struct.Struct("<QB")


class Answer:
    """The ACK to one ENTRIES frame, from the outcomes of its parts."""

    def __init__(self) -> None:
        self._total = Outcome()
        self._reasons: list[str] = []
        self._words: list[str] = []
        self._data = bytearray()

    @property
    def applied(self) -> int:
        """Entries that are in the kernel as sent."""
        return self._total.applied

    def add(self, outcome: Outcome) -> None:
        """Take what became of a part."""
        self._total.created += outcome.created
        self._total.identical += outcome.identical
        self._total.replaced += outcome.replaced
        for one in outcome.refusals[: WORDS - len(self._words)]:
            held = f" (held by {one.holder})" if one.holder else ""
            self._words.append(f"{one.reason}: {one.entry}{held}")
        for key, reason in zip(outcome.not_applied, outcome.causes, strict=True):
            if reason not in self._reasons:
                self._reasons.append(reason)
            self._data += _NOT_APPLIED.pack(key, self._reasons.index(reason))

    def frame(self, seq: int) -> Frame:
        """The answer to frame ``seq``."""
        fields: Mapping[str, Any] = {
            "created": self._total.created,
            "identical": self._total.identical,
            "replaced": self._total.replaced,
            "reasons": self._reasons,
            "refused": self._words,
        }
        return Frame(Kind.ACK, seq, fields, bytes(self._data))


def not_applied(ack: Frame) -> dict[int, str]:
    """Key -> reason of an ACK's refused entries. Raises FrameError."""
    names = ack.items("reasons", 255)
    if len(ack.data) % _NOT_APPLIED.size:
        raise FrameError("ACK ends inside a refused entry")
    out = {}
    for key, index in _NOT_APPLIED.iter_unpack(ack.data):
        if index >= len(names) or not isinstance(names[index], str):
            raise FrameError("ACK gives a reason it does not name")
        out[key] = names[index]
    return out


def synced(frame: Frame, gone: Mapping[int, Hashes]) -> tuple[Frame, dict[int, Hashes]]:
    """The answer to a SYNC with vanished copies by zone index, and those for which it had no room."""
    counts: list[list[int]] = []
    data = bytearray()
    left: dict[int, Hashes] = {}
    for index, all_keys in gone.items():
        room = VANISHED_MAX - len(data) // 8
        told, rest = all_keys[:room], all_keys[room:]
        if told.size:
            counts.append([index, int(told.size)])
            data += to_wire(told)
        if rest.size:
            left[index] = rest
    fields = {"round": frame.number("round"), "more": bool(left), "zones": counts}
    return Frame(Kind.SYNCED, frame.seq, fields, bytes(data)), left


def vanished(answer: Frame) -> dict[int, Hashes]:
    """Zone index -> keys of a SYNCED. Raises FrameError."""
    keys = keys_of(answer.data)
    out: dict[int, Hashes] = {}
    for item in answer.items("zones", 64):
        if not (isinstance(item, list) and len(item) == 2 and all(type(one) is int for one in item)):
            raise FrameError("SYNCED lists a zone that is no pair of numbers")
        out[item[0]], keys = keys[: item[1]], keys[item[1] :]
    if keys.size:
        raise FrameError("SYNCED holds keys of no zone")
    return out


def keys_of(data: bytes) -> Hashes:
    """A list of keys from the wire. Raises FrameError."""
    if len(data) % 8:
        raise FrameError("a list of keys ends inside a key")
    return from_wire(data)
