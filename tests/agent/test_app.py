"""Who may ask what; the answers themselves are tested with agents that run (tests/netns)."""

from __future__ import annotations

from typing import cast

import httpx2

from ovnmig.agent.app import create_app
from ovnmig.agent.contract import agent_openapi
from ovnmig.agent.parts import Parts

NOBODY = cast(Parts, object())


async def test_without_a_controllers_certificate_only_livez_answers() -> None:
    app = create_app(NOBODY, "1")
    document = agent_openapi("1")
    transport = httpx2.ASGITransport(app=app)
    refused = []
    async with httpx2.AsyncClient(transport=transport, base_url="https://agent") as client:
        assert (await client.get("/livez")).text == "ok\n"
        for path, operations in document["paths"].items():
            for method in operations:
                url = path.format(transfer_id="m", announce_id="m")
                body: dict[str, str] | None = {} if method in ("put", "post") else None
                answer = await client.request(method, url, json=body)
                if answer.status_code == 403:
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert "a controller only" in answer.json()["detail"]
                    refused.append((method, path))
    assert len(refused) == 11
    assert ("get", "/livez") not in refused


def test_the_contract_lists_every_operation_with_what_it_is_for() -> None:
    document = agent_openapi("1.2")
    assert document["info"]["version"] == "1.2"
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len(operations) == 12
    assert all(one["description"] for one in operations)
