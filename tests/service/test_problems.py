from __future__ import annotations

import httpx2
import pytest

from ovnmig.core.rows import EpochConflict
from ovnmig.engine.protocols import (
    AgentRefused,
    AgentUnreachable,
    Conflict,
    DatabaseUnavailable,
    NotFound,
    NotLeader,
)
from ovnmig.service.problems import FIELD_MAX, PROBLEMS_MAX, field_name
from tests.service.fake import FakeController
from tests.service.lib import UDN, create, problem_of


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (NotFound("no UDN 'x'"), 404, "not-found"),
        (Conflict("wait for m1"), 409, "conflict"),
        (EpochConflict(), 409, "changed-meanwhile"),
        (NotLeader("ask the leader"), 503, "not-leader"),
        (DatabaseUnavailable("NB does not answer"), 503, "database-unavailable"),
        (AgentUnreachable("gw-2 does not answer"), 502, "agent-unreachable"),
        (AgentRefused("older epoch"), 502, "agent-refused"),
        (RuntimeError("a secret of the inside"), 500, "internal"),
    ],
)
async def test_every_error_of_the_controller_has_its_problem_document(
    client: httpx2.AsyncClient, controller: FakeController, error: Exception, status: int, kind: str
) -> None:
    controller.fail_next = error
    answer = await client.get("/v1/udns")
    problem = problem_of(answer)
    assert (problem["status"], problem["type"]) == (status, f"urn:ovnmig:problem:{kind}")
    assert ("retry-after" in answer.headers) == (status == 503)
    if status == 500:
        assert "secret" not in problem["detail"]
    elif str(error):
        assert problem["detail"] == str(error)
    assert (await client.get("/v1/udns")).status_code == 200, "only the next call failed"


async def test_a_path_that_nothing_serves_is_a_problem_that_says_so(client: httpx2.AsyncClient) -> None:
    for path in ("/", "/v1", "/v1/nope", "/v1/udns/", "/v1/udns/a/b"):
        assert path in problem_of(await client.get(path))["detail"]


async def test_a_method_that_is_not_possible_names_all_that_are(client: httpx2.AsyncClient) -> None:
    answer = await client.patch("/v1/udns")
    assert problem_of(answer)["status"] == 405
    assert answer.headers["allow"] == "GET, POST"
    assert "GET, POST" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe"])
async def test_a_body_that_is_no_json_object_is_a_problem(client: httpx2.AsyncClient, body: bytes) -> None:
    answer = await client.post("/v1/udns", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    problem_of(answer)


async def test_all_wrong_fields_are_named_at_once_with_what_to_write(client: httpx2.AsyncClient) -> None:
    answer = await create(
        client,
        subnets=["10.1.0.5/24", "nonsense"],
        vips=["172.16.1.100"],
        nexthops=["172.16.1.1/24"],
        vlan=4095,
        port_range="9-1",
        snat_zone=True,
        polici="pinned",
    )
    problems = {p["field"]: p["message"] for p in problem_of(answer)["problems"]}
    assert set(problems) == {
        "subnets[0]", "subnets[1]", "vips[0]", "nexthops[0]", "vlan", "port_range", "snat_zone", "polici",
    }  # fmt: skip
    assert "10.1.0.0/24" in problems["subnets[0]"]
    assert "prefix" in problems["vips[0]"]
    assert "'policy'" in problems["polici"]


async def test_a_missing_field_is_named(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/udns", json={k: v for k, v in UDN.items() if k != "vips"})
    (problem,) = problem_of(answer)["problems"]
    assert (problem["field"], problem["code"]) == ("vips", "missing-field")


def test_fields_are_named_as_people_write_them() -> None:
    assert field_name(("body", "vips", 0)) == "vips[0]"
    assert field_name(("body", "a", "b")) == "a.b"
    assert field_name(("query", "after")) == "query.after"
    assert field_name(("body",)) == ""


@pytest.mark.parametrize(
    ("body", "content_type"), [(b'{"name": "x"}', "text/plain"), (b"[]", "application/json")]
)
async def test_a_body_that_is_no_json_object_is_answered_with_what_to_send(
    client: httpx2.AsyncClient, body: bytes, content_type: str
) -> None:
    answer = await client.post("/v1/udns", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]


async def test_a_missing_body_is_answered_with_what_to_send(client: httpx2.AsyncClient) -> None:
    problem = problem_of(await client.post("/v1/udns"))
    assert "there is no body; send one JSON object" in problem["detail"]


async def test_a_body_full_of_wrong_fields_is_answered_with_the_first_ones_and_a_count(
    client: httpx2.AsyncClient,
) -> None:
    answer = await create(client, **{f"{number}-{'x' * 500}": 1 for number in range(PROBLEMS_MAX + 5)})
    problems = problem_of(answer)["problems"]
    assert problems[-1] == {"code": "more", "message": "5 more fields are wrong", "field": None}
    assert len(problems) == PROBLEMS_MAX + 1
    assert {len(one["field"]) for one in problems[:-1]} == {FIELD_MAX}
