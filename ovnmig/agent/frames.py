"""The frames of a session stream, without any I/O. ``schemas/stream.md`` is the format in words.

A frame is a 12-byte head and a body. Control bodies are JSON objects whose unknown members are ignored;
bulk bodies begin with such an object and end in bytes. The sending agent (source) numbers what it sends;
the receiving one (sink) answers with the number it answers to.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

MAJOR: Final = 1
MINOR: Final = 1
MAX_CONTROL: Final = 1 << 20
MAX_BULK: Final = 16 << 20
OPTIONAL: Final = 0x01
"""Flag of a frame that a receiver which does not know its kind skips."""

_HEAD = struct.Struct("!IBBHI")
_SPLIT = struct.Struct("!I")


class FrameError(ValueError):
    """The peer broke the format; nothing of the frame was used. The connection must be closed."""


class Kind(IntEnum):
    """What a frame is. The first block is sent by the source, the second by the sink, the last by both."""

    HELLO = 1
    ENTRIES = 2
    DELETE = 3
    SYNC = 4
    WELCOME = 17
    ACK = 18
    SYNCED = 19
    RESYNC = 20
    ERROR = 32
    ALIVE = 33


_BULK = frozenset({Kind.ENTRIES, Kind.DELETE, Kind.ACK, Kind.SYNCED})
_OPTIONAL = frozenset({Kind.ALIVE})
_KNOWN = {int(kind) for kind in Kind}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: ``fields`` is the JSON object, ``data`` the bytes after it (bulk kinds only)."""

    kind: Kind
    seq: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    data: bytes = b""

    def text(self, name: str, limit: int = 4096) -> str:
        """A required string member."""
        value = self.fields.get(name)
        if not isinstance(value, str) or len(value) > limit:
            raise FrameError(f"{self.kind.name} has no usable text {name!r}")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """A non-negative integer member below 2^63; ``default`` when absent."""
        value = self.fields.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise FrameError(f"{self.kind.name} has no usable number {name!r}")
        return value

    def items(self, name: str, limit: int = 1 << 16) -> list[Any]:
        """A list member; empty when absent."""
        value = self.fields.get(name, [])
        if not isinstance(value, list) or len(value) > limit:
            raise FrameError(f"{self.kind.name} has no usable list {name!r}")
        return value


def encode(frame: Frame) -> bytes:
    """The bytes of a frame. Raises ValueError when it is above the limit for its kind: split it."""
    fields = json.dumps(frame.fields, separators=(",", ":"), ensure_ascii=False).encode()
    body = _SPLIT.pack(len(fields)) + fields + frame.data if frame.kind in _BULK else fields
    if len(body) > _limit(frame.kind):
        raise ValueError(f"a {frame.kind.name} frame of {len(body)} bytes is above the limit")
    flags = OPTIONAL if frame.kind in _OPTIONAL else 0
    return _HEAD.pack(len(body), frame.kind, flags, 0, frame.seq) + body


class Decoder:
    """Bytes in, frames out. Holds at most one incomplete frame; broken after the first FrameError."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken = False

    @property
    def incomplete(self) -> bool:
        """Bytes of an unfinished frame are waiting: an end of the connection now has cut it."""
        return bool(self._buffer)

    @property
    def due(self) -> int:
        """Bytes of the frame that has begun, as far as they are known; 0 between frames."""
        if len(self._buffer) < _HEAD.size:
            return 0
        return _HEAD.size + int(_HEAD.unpack_from(self._buffer)[0])

    def feed(self, data: bytes) -> None:
        """Take what came from the connection (keep reads below a megabyte: memory stays bounded)."""
        self._buffer += data

    def next(self) -> Frame | None:
        """The next whole frame, or None until more bytes come. Raises FrameError."""
        if self._broken:
            raise FrameError("the stream is already broken")
        try:
            return self._next()
        except FrameError:
            self._broken = True
            self._buffer.clear()
            raise

    def _next(self) -> Frame | None:
        while len(self._buffer) >= _HEAD.size:
            length, kind, flags, _, seq = _HEAD.unpack_from(self._buffer)
            known = kind in _KNOWN
            if not known and not flags & OPTIONAL:
                raise FrameError(f"frame kind {kind} is unknown and not optional")
            limit = _limit(Kind(kind)) if known else MAX_CONTROL
            if length > limit:
                raise FrameError(f"a frame of {length} bytes is above the limit of {limit}")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return None
            body = bytes(memoryview(self._buffer)[_HEAD.size : end])
            del self._buffer[:end]
            if known:
                return _parse(Kind(kind), seq, body)
        return None


def _limit(kind: Kind) -> int:
    return MAX_BULK if kind in _BULK else MAX_CONTROL


def _parse(kind: Kind, seq: int, body: bytes) -> Frame:
    data = b""
    if kind in _BULK:
        if len(body) < _SPLIT.size:
            raise FrameError(f"{kind.name} is shorter than its own head")
        (length,) = _SPLIT.unpack_from(body)
        end = _SPLIT.size + length
        if end > len(body):
            raise FrameError(f"{kind.name} ends inside its fields")
        body, data = body[_SPLIT.size : end], body[end:]
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"{kind.name} does not hold JSON: {error}") from None
    if not isinstance(fields, dict):
        raise FrameError(f"{kind.name} does not hold a JSON object")
    return Frame(kind, seq, fields, data)


def check_version(hello: Frame) -> None:
    """Raises FrameError when the peer speaks another major version; a newer minor one is fine."""
    major = hello.number("major")
    if major != MAJOR:
        raise FrameError(
            f"the peer speaks stream version {major}, this agent {MAJOR}: use agents of one release"
        )
