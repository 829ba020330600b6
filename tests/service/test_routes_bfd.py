from __future__ import annotations

import httpx2


async def test_a_profile_that_was_set_is_answered(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/v1/bfd")).json()["profile"] == "default"
    answer = await client.put("/v1/bfd", json={"profile": "fast"})
    assert answer.status_code == 200
    assert answer.json() == (await client.get("/v1/bfd")).json()
    assert answer.json()["min_rx_ms"] == 200


async def test_values_by_hand_are_not_taken(client: httpx2.AsyncClient) -> None:
    for body in ({"profile": "slow"}, {"profile": "fast", "mult": 5}, {}):
        assert (await client.put("/v1/bfd", json=body)).status_code == 422
