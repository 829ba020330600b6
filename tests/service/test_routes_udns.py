from __future__ import annotations

import httpx2
import pytest

from ovnmig.core.udn import Problem, Refused
from ovnmig.service import examples
from ovnmig.service.routes_udns import migration_url, udn_url
from tests.service.fake import FakeController
from tests.service.lib import UDN, WEIRD_NAMES, create, problem_of, udn_path


async def test_a_created_udn_is_201_with_its_location_and_found_there(client: httpx2.AsyncClient) -> None:
    made = await create(client, name="blue net")
    assert made.status_code == 201
    assert made.headers["location"] == "/v1/udns/blue%20net"
    found = await client.get(made.headers["location"])
    assert found.status_code == 200
    assert found.json() == made.json()


async def test_the_same_request_again_is_200_and_says_that_nothing_changed(
    client: httpx2.AsyncClient,
) -> None:
    assert (await create(client)).json()["changed"] is True
    again = await create(client)
    assert again.status_code == 200
    assert again.json()["changed"] is False


async def test_another_request_of_that_name_is_409(client: httpx2.AsyncClient) -> None:
    await create(client)
    assert problem_of(await create(client, vips=["172.16.1.7/24"]))["status"] == 409


@pytest.mark.parametrize("name", WEIRD_NAMES)
async def test_a_name_of_any_characters_can_be_created_changed_and_deleted(
    client: httpx2.AsyncClient, name: str
) -> None:
    made = await create(client, name=name)
    assert made.status_code == 201, made.text
    path = udn_path(name)
    assert (await client.get(path)).json()["name"] == name
    assert (await client.get(f"{path}/gateway")).json()["udn"] == name
    changed = await client.put(path, json={k: v for k, v in UDN.items() if k != "name"} | {"vlan": 7})
    assert changed.json()["vlan"] == 7
    assert [u["name"] for u in (await client.get("/v1/udns")).json()["udns"]] == [name]
    assert (await client.delete(path)).status_code == 204
    assert problem_of(await client.get(path))["status"] == 404


@pytest.mark.parametrize("name", ["a/b", ".", "..", "", "new\nline", "nul\0", "x" * 201])
async def test_a_name_that_cannot_stand_in_a_url_is_refused_at_creation(
    client: httpx2.AsyncClient, controller: FakeController, name: str
) -> None:
    problem = problem_of(await create(client, name=name))
    assert problem["status"] == 422
    assert problem["problems"][0]["field"] == "name"
    assert not controller.states


async def test_an_encoded_slash_is_refused_and_never_read_as_a_path(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    await create(client, name="a")
    for path in ("/v1/udns/a%2Fgateway", "/v1/udns/a%2fb", "/v1/udns/a%2F"):
        problem = problem_of(await client.get(path))
        assert problem["status"] == 422
        assert "'/'" in problem["detail"]
    assert problem_of(await client.delete("/v1/udns/a%2Fgateway"))["status"] == 422
    assert "a" in controller.states


async def test_dual_stack_addresses_come_back_as_they_were_given(client: httpx2.AsyncClient) -> None:
    answer = (await client.post("/v1/udns", json=examples.UDN_CREATE)).json()
    for field in ("subnets", "vips", "nexthops"):
        assert answer[field] == examples.UDN_CREATE[field]
    assert answer["switch_owned"] is True


async def test_a_change_replaces_everything_and_keeps_the_name(client: httpx2.AsyncClient) -> None:
    await create(client, vlan=5, port_range="20000-30000", snat_zone="off")
    first = (await client.get("/v1/udns/blue")).json()
    assert (first["vlan"], first["port_range"], first["snat_zone"]) == (5, "20000-30000", None)
    second = (await client.put("/v1/udns/blue", json=UDN)).json()
    assert (second["vlan"], second["port_range"], second["snat_zone"]) == (None, None, 32768)
    assert second["epoch"] > first["epoch"]


async def test_a_change_that_would_rename_is_refused(client: httpx2.AsyncClient) -> None:
    await create(client)
    problem = problem_of(await client.put("/v1/udns/blue", json=UDN | {"name": "red"}))
    assert problem["status"] == 422
    assert problem["problems"][0]["code"] == "renamed"


async def test_what_the_controller_refuses_comes_with_all_its_reasons(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    taken = Problem("vip-taken", "VIP 172.16.1.100 is used by UDN 'red'", "vips", conflict=True)
    unknown = Problem("unknown-switch", "there is no switch 'blue'; add create_switch", "switch")
    controller.fail_next = Refused((taken, unknown))
    both = problem_of(await create(client))
    assert both["status"] == 409, "something else holds what is wanted"
    assert [p["code"] for p in both["problems"]] == ["vip-taken", "unknown-switch"]
    controller.fail_next = Refused((unknown,))
    assert problem_of(await create(client))["status"] == 422


async def test_a_gateway_moved_by_hand_is_202_with_its_migration(client: httpx2.AsyncClient) -> None:
    await create(client)
    moved = await client.put("/v1/udns/blue/gateway", json={"target": "gw-2", "overlap_s": 5})
    assert moved.status_code == 202
    record = (await client.get(moved.headers["location"])).json()
    assert (record["target"], record["overlap_s"], record["port"]) == ("gw-2", 5.0, None)


async def test_moving_the_gateway_twice_under_one_key_starts_one_migration(
    client: httpx2.AsyncClient,
) -> None:
    await create(client)
    headers = {"Idempotency-Key": "k1"}
    answers = [
        await client.put("/v1/udns/blue/gateway", json={"target": "gw-2"}, headers=headers) for _ in range(2)
    ]
    assert [a.status_code for a in answers] == [202, 202]
    assert answers[0].json()["id"] == answers[1].json()["id"]


async def test_the_gateway_lists_its_members_the_owner_first(client: httpx2.AsyncClient) -> None:
    await create(client)
    gateway = (await client.get("/v1/udns/blue/gateway")).json()
    assert [m["chassis"] for m in gateway["members"]] == ["gw-1", "gw-2"]
    assert set(gateway) == set(examples.GATEWAY)


async def test_what_is_not_there_is_404_on_every_route(client: httpx2.AsyncClient) -> None:
    body = {k: v for k, v in UDN.items() if k != "name"}
    for answer in (
        await client.get("/v1/udns/none"),
        await client.put("/v1/udns/none", json=body),
        await client.delete("/v1/udns/none"),
        await client.get("/v1/udns/none/gateway"),
        await client.put("/v1/udns/none/gateway", json={"target": "gw-2"}),
    ):
        assert "none" in problem_of(answer)["detail"]
        assert answer.status_code == 404


def test_urls_percent_encode_every_special_character() -> None:
    assert udn_url("a b/c?") == "/v1/udns/a%20b%2Fc%3F"
    assert migration_url("m 1") == "/v1/migrations/m%201"


async def test_more_addresses_than_anybody_has_are_refused_before_they_are_compared(
    client: httpx2.AsyncClient,
) -> None:
    body = examples.UDN_CREATE | {"subnets": ["10.1.0.0/24"] * 65}
    answer = await client.post("/v1/udns", json=body)
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == "subnets"


async def test_the_operators_word_for_a_lone_gateway_is_passed_on(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    await create(client)
    body = {"target": "gw-2", "allow_interruption": True}
    assert (await client.put("/v1/udns/blue/gateway", json=body)).status_code == 202
    assert controller.requests[-1].allow_interruption
    wrong = await client.put("/v1/udns/blue/gateway", json=body | {"allow_interruption": "perhaps"})
    assert problem_of(wrong)["status"] == 422
