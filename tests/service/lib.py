"""Words the service's tests share."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx2

PROBLEM = "application/problem+json"
WEIRD_NAMES = (
    "blue net",
    "a.b",
    "...",
    ' lead"quote"s\'',
    "grün-蓝-💙",
    "percent%20",
    "q?x=1#frag",
    "semi;colon,comma",
    "back\\slash",
    "[brackets]",
    "+plus+",
    "gateway",
    "x" * 200,
)
UDN: dict[str, Any] = {
    "name": "blue",
    "subnets": ["10.1.0.0/24"],
    "vips": ["172.16.1.100/24"],
    "physical_network": "public",
}


def udn_path(name: str) -> str:
    """The URL of a UDN."""
    return f"/v1/udns/{quote(name, safe='')}"


def problem_of(answer: httpx2.Response) -> dict[str, Any]:
    """The problem document in an error's body; fails when it is anything else."""
    assert answer.headers["content-type"] == PROBLEM, answer.text
    document: dict[str, Any] = answer.json()
    assert set(document) == {"type", "title", "status", "detail", "problems"}
    assert document["status"] == answer.status_code
    assert document["type"].startswith("urn:ovnmig:problem:")
    assert document["detail"], "a problem says what is wrong"
    return document


async def create(client: httpx2.AsyncClient, **changes: object) -> httpx2.Response:
    """POST a UDN."""
    return await client.post("/v1/udns", json=UDN | changes)
