"""The frames between the host and the guest's command daemon.

One connection carries one call. The caller sends a `REQUEST` frame (JSON), then the two sides exchange
frames until the daemon sends `EXIT`. A frame is one byte of kind, four bytes of length (big endian) and
the payload. After a `READY` answer to a `connect` request the connection carries raw bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

REQUEST = b"q"
STDIN = b"i"
STDOUT = b"o"
STDERR = b"e"
READY = b"k"
EXIT = b"x"

HEADER = struct.Struct(">cI")
MAX_PAYLOAD = 16 * 1024 * 1024
CHUNK = 64 * 1024


class WireError(Exception):
    """The other side broke the protocol or went away in the middle of a frame."""


def pack(kind: bytes, payload: bytes = b"") -> bytes:
    """Returns one frame, ready to be sent."""
    return HEADER.pack(kind, len(payload)) + payload


def pack_json(kind: bytes, document: dict[str, Any]) -> bytes:
    """Returns one frame whose payload is a JSON object."""
    return pack(kind, json.dumps(document).encode())


def unpack_header(header: bytes) -> tuple[bytes, int]:
    """Returns kind and payload length; raises WireError for a length nobody sends."""
    kind, length = HEADER.unpack(header)
    if length > MAX_PAYLOAD:
        raise WireError(f"a frame of {length} bytes was announced, at most {MAX_PAYLOAD} are sent")
    return kind, length


def read_frame(read_exactly: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """Reads one frame through a function that returns exactly the bytes asked for."""
    kind, length = unpack_header(read_exactly(HEADER.size))
    return kind, read_exactly(length) if length else b""


def parse_json(payload: bytes) -> dict[str, Any]:
    """Returns the JSON object of a payload; raises WireError when it is none."""
    try:
        document = json.loads(payload)
    except ValueError as error:
        raise WireError(f"a frame should hold JSON: {error}") from error
    if not isinstance(document, dict):
        raise WireError("a frame should hold a JSON object")
    return document
