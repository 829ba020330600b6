"""A REST client for the sandbox's relay on the host's loopback: status and decoded body of every answer."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

ANSWER_TIMEOUT_S = 60.0
BROKEN = frozenset({"rolling-back", "rolled-back", "failed"})
ENDED = frozenset({"completed", "rolled-back", "failed"})


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; ``body`` is the decoded JSON, ``None`` for an empty one."""

    status: int
    body: Any

    def codes(self) -> set[str]:
        """The problem codes of a refusal."""
        return {problem["code"] for problem in self.body["problems"]}


class Unreachable(ConnectionError):
    """Nothing answers at the other end of the relay."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The REST API at a port of the loopback."""

    port: int

    def call(
        self, method: str, path: str, body: object = None, *, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request, whatever it is answered. Raises Unreachable when nothing answers."""
        data = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_TIMEOUT_S)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"} | (headers or {}))
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        return Answer(answer.status, json.loads(text) if text else None)

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """The body of a request that must not be refused."""
        answer = self.call(method, path, body)
        assert answer.status < 400, f"{method} {path}: {answer.status}: {json.dumps(answer.body)}"
        return answer.body

    def wait(self, what: str, path: str, holds: Callable[[Any], bool], timeout_s: float = 30.0) -> Any:
        """Asks until ``holds`` is true of the answer; a service that is being restarted is asked again."""
        deadline = time.monotonic() + timeout_s
        last: object = None
        while True:
            try:
                answer = self.call("GET", path)
                last = answer.body
                if answer.status == 200 and holds(answer.body):
                    return answer.body
            except Unreachable as error:
                last = str(error)
            assert time.monotonic() < deadline, f"{what}: not in {timeout_s:g} s; last: {json.dumps(last)}"
            time.sleep(0.05)

    def eventually_possible(self, request: object, timeout_s: float = 20.0) -> None:
        """Asks by dry runs until nothing speaks against the migration, and it would not wait for BFD."""
        deadline = time.monotonic() + timeout_s
        while not at_once(answer := self.ok("POST", "/v1/migrations?dry_run=true", request)):
            assert time.monotonic() < deadline, f"not possible at once: {answer}"
            time.sleep(0.2)

    def migrate(self, **request: object) -> Any:
        """Starts a migration; returns its first answer."""
        return self.ok("POST", "/v1/migrations", request)

    def reached(self, migration: str, phases: Collection[str], timeout_s: float = 60.0) -> Any:
        """Waits for one of the phases; a migration that broke instead fails the test with its reason."""

        def holds(answer: Any) -> bool:
            if answer["phase"] in phases:
                return True
            assert answer["phase"] not in ENDED, f"it {answer['phase']}: {answer['reason']}: {answer}"
            return False

        return self.wait(f"migration in {'/'.join(phases)}", f"/v1/migrations/{migration}", holds, timeout_s)


def at_once(dry_run: Any) -> bool:
    """The migration is possible, and the HA set is complete: BFD is up between its members."""
    return bool(dry_run["possible"]) and not any("wait for BFD" in line for line in dry_run["plan"])


def udn_path(name: str) -> str:
    """The path of a UDN, whatever its name holds."""
    return f"/v1/udns/{quote(name, safe='')}"
