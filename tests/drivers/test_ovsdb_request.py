"""One question to a server: the answer, or why there is none, and always in time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ovnmig.drivers.ovsdb_request import RequestFailed, ask
from tests.nb.server import DatabaseServer, northbound


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    made = northbound()
    yield made
    made.remove()


def test_the_answer_is_returned(server: DatabaseServer) -> None:
    assert sorted(ask(server.remote, "list_dbs", [], 5)) == ["OVN_Northbound", "_Server"]


def test_an_error_is_told(server: DatabaseServer) -> None:
    with pytest.raises(RequestFailed, match="unknown database"):
        ask(server.remote, "get_schema", ["Nothing"], 5)


def test_a_server_that_is_not_there_is_told(server: DatabaseServer) -> None:
    server.stop()
    with pytest.raises(RequestFailed, match="No such file"):
        ask(server.remote, "list_dbs", [], 5)


def test_a_silent_server_costs_the_time_limit_and_no_more(server: DatabaseServer) -> None:
    server.pause()
    began = time.monotonic()
    try:
        with pytest.raises(RequestFailed, match="timed out"):
            ask(server.remote, "list_dbs", [], 0.3)
    finally:
        server.resume()
    assert time.monotonic() - began >= 0.3


def test_a_server_that_hangs_up_is_told(server: DatabaseServer) -> None:
    with pytest.raises(RequestFailed):
        ask(server.remote, "", [], 5)
