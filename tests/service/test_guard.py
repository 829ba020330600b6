from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from ovnmig.service.app import create_app
from ovnmig.service.guard import BODY_MAX, ListenRefused, check_listen_address, is_own_host
from tests.service.fake import FakeController


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback_is_fine(address: str) -> None:
    check_listen_address(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "example", "", "127.1"])
def test_anything_else_is_refused_with_what_to_set(address: str) -> None:
    with pytest.raises(ListenRefused, match=r"OVNMIG_LISTEN_ADDRESS.*127\.0\.0\.1"):
        check_listen_address(address)


async def test_a_body_beyond_the_limit_is_refused_before_it_is_parsed(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/udns", content=b"[" * (BODY_MAX + 1))
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:ovnmig:problem:too-large"


async def test_a_body_in_many_pieces_arrives_whole(client: httpx2.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b'{"name": "blue", "subnets": ["10.0.0.0/8"], ', b'"vips": ["192.0.2.1/24"], ', b""):
            yield piece
        yield b'"physical_network": "p"}'

    headers = {"Content-Type": "application/json"}
    answer = await client.post("/v1/udns", content=pieces(), headers=headers)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8787", "127.0.0.1", "127.0.0.1:1", "127.9.9.9:1", "[::1]", "[::1]:8787"]
)
def test_loopback_hosts_are_the_services_own(host: str) -> None:
    assert is_own_host(host, ())


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8787",
        "127.0.0.1.evil.example",
        "192.0.2.1:8787",
        "[2001:db8::1]",
        ":",
    ],
)
def test_other_hosts_are_not(host: str) -> None:
    assert not is_own_host(host, ())


def test_named_hosts_are_accepted_with_any_port_and_in_any_case() -> None:
    assert is_own_host("Ovnmig.Example:443", ["ovnmig.example"])


async def test_a_request_for_another_host_is_refused_with_what_to_do() -> None:
    transport = httpx2.ASGITransport(
        create_app(FakeController(), version="0", allowed_hosts=["blue.example"])
    )
    async with httpx2.AsyncClient(transport=transport) as client:
        answer = await client.get("http://evil.example/v1/udns")
        assert (answer.status_code, answer.json()["type"]) == (421, "urn:ovnmig:problem:misdirected")
        assert "OVNMIG_ALLOWED_HOSTS" in answer.json()["detail"]
        assert (await client.get("http://blue.example/v1/udns")).status_code == 200


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/migrations?dry_run=true&dry_run=false", "query.dry_run"),
        ("/v1/migrations?dry%5Frun=true&dry_run=", "query.dry_run"),
        ("/v1/events?follow=false&after=1&after=2", "query.after"),
    ],
)
async def test_a_parameter_given_twice_is_refused_so_that_no_dry_run_becomes_real(
    client: httpx2.AsyncClient, path: str, field: str
) -> None:
    body = {"udn": "blue", "target": "gw-2"}
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["detail"]) == (422, f"{field}: give it once")
