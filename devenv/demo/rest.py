"""A tiny REST client, so that the demo talks to ovnmig like any user with curl."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

HOST, PORT = "127.0.0.1", 8787
ANSWER_TIMEOUT_S = 60.0


class RestError(RuntimeError):
    """ovnmig refused; the text is its problem document's."""


def call(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """One request; returns the decoded answer, ``None`` for none. Raises RestError with ovnmig's words."""
    data = None if body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection(HOST, PORT, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise RestError(f"{method} {path}: no answer from ovnmig: {error}") from error
    finally:
        connection.close()
    if answer.status >= 400:
        raise RestError(f"{method} {path}: {answer.status}: {text.decode(errors='replace')}")
    return json.loads(text) if text else None


def udn_path(name: str) -> str:
    """The path of a UDN; any name is percent-encoded."""
    return f"/v1/udns/{quote(name, safe='')}"


def wait(what: str, path: str, holds: Callable[[Any], bool], timeout_s: float) -> Any:
    """Ask until ``holds`` is true of the answer; RestError with the last answer if it never is."""
    deadline = time.monotonic() + timeout_s
    while not holds(answer := call("GET", path)):
        if time.monotonic() > deadline:
            raise RestError(f"{what} not seen within {timeout_s:.0f} s; last answer: {json.dumps(answer)}")
        time.sleep(0.05)
    return answer
