"""The REST client of the CLI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from ovnmig.cli.exits import ApiProblem, CliError, Exit, Unreachable

Document = dict[str, Any]
TIMEOUT_S = 30.0


def segment(name: str) -> str:
    """``name`` as one segment of a URL path. Raises CliError on names the service refuses anyway."""
    if not name or "/" in name or name in (".", ".."):
        raise CliError(f"{name!r} cannot be a name: it is empty, a dot path or contains '/'", code=Exit.USAGE)
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise CliError(f"{name!r} cannot be a name: it is not UTF-8", code=Exit.USAGE) from None


def encoded(body: Document) -> bytes:
    """``body`` as JSON. Raises CliError that names the field with what JSON cannot hold."""
    for field, value in body.items():
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise CliError(f"{field}: {value!r} is not UTF-8", code=Exit.USAGE) from None
        except ValueError:
            raise CliError(f"{field}: {value!r} is no finite number; write one", code=Exit.USAGE) from None
    return json.dumps(body).encode()


def _check_parameters(params: Mapping[str, str | int] | None) -> None:
    for name, value in (params or {}).items():
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise CliError(f"{name}: {value!r} is not UTF-8", code=Exit.USAGE) from None


class Api:
    """Calls to the service at ``url``. Raises Unreachable and ApiProblem."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url.rstrip("/")
        try:
            # The service listens on loopback only: a proxy from the environment could never reach it.
            self._client = httpx2.Client(base_url=self.url, timeout=timeout_s, trust_env=False)
        except httpx2.InvalidURL as error:
            raise CliError(f"{url!r} is not a URL: {error}", code=Exit.USAGE) from None

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Document | None = None,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (),
    ) -> Document:
        """One request; the JSON object of the answer. Statuses in ``accept`` are answers, not problems."""
        _check_parameters(params)
        content = None if body is None else encoded(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        try:
            answer = self._client.request(
                method, path, content=content, params=params, headers={**kind, **(headers or {})}
            )
        except httpx2.UnsupportedProtocol as error:
            raise CliError(f"{self.url!r} cannot be used: {error}", code=Exit.USAGE) from None
        except httpx2.TransportError as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from None
        if answer.is_success or answer.status_code in accept:
            return self._document(answer) if answer.content else {}
        raise self._problem(answer)

    def get(self, path: str, **params: str | int) -> Document:
        """GET."""
        return self.call("GET", path, params=params or None)

    def events(self, *, after: int | None, follow: bool, migration: str | None) -> Iterator[Document]:
        """Events as they come. Raises Unreachable when the connection breaks or cannot be made."""
        params: dict[str, str | int] = {"follow": str(follow).lower()}
        if after is not None:
            params["after"] = after
        if migration is not None:
            params["migration"] = migration
        _check_parameters(params)
        timeout = httpx2.Timeout(TIMEOUT_S, read=45.0)  # the service sends a comment every 15 s
        try:
            with self._client.stream("GET", "/v1/events", params=params, timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._problem(answer)
                for event in httpx2.EventSource(answer):
                    if event.data:
                        data = event.json()
                        if isinstance(data, dict):
                            yield data
        except httpx2.TransportError as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from None

    def _document(self, answer: httpx2.Response) -> Document:
        try:
            data = answer.json()
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise CliError(
                f"what answers at {self.url} is not ovnmig (HTTP {answer.status_code}, no JSON object)"
            )
        return data

    def _problem(self, answer: httpx2.Response) -> CliError:
        data = self._document(answer)
        items = data.get("problems") or []
        words = [f"{i['field']}: {i['message']}" if i.get("field") else str(i["message"]) for i in items]
        title, detail = str(data.get("title", "Error")), str(data.get("detail", ""))
        return ApiProblem(answer.status_code, title, detail, words, data)
