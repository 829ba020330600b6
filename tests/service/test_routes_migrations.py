from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest

from ovnmig.core.migration import Phase
from ovnmig.core.transfer import Counts
from ovnmig.core.udn import Problem
from tests.service.fake import FakeController
from tests.service.lib import create, problem_of

REQUEST = {"udn": "blue", "target": "gw-2", "port": "vm1"}


@pytest.fixture(autouse=True)
async def blue(client: httpx2.AsyncClient) -> None:
    assert (await create(client)).status_code == 201


async def test_a_started_migration_is_202_and_found_at_its_location(client: httpx2.AsyncClient) -> None:
    started = await client.post("/v1/migrations", json=REQUEST | {"binding": "ovnmig", "overlap_s": 1.5})
    assert started.status_code == 202
    record = (await client.get(started.headers["location"])).json()
    assert record == started.json()
    assert (record["phase"], record["binding"], record["overlap_s"]) == ("requested", "ovnmig", 1.5)


async def test_a_second_one_in_flight_is_409_and_names_the_first(client: httpx2.AsyncClient) -> None:
    first = (await client.post("/v1/migrations", json=REQUEST)).json()
    problem = problem_of(await client.post("/v1/migrations", json=REQUEST))
    assert problem["status"] == 409
    assert first["id"] in problem["detail"]


async def test_the_same_idempotency_key_answers_with_the_running_one(client: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "job-17"}
    ids = {
        (await client.post("/v1/migrations", json=REQUEST, headers=headers)).json()["id"] for _ in range(3)
    }
    assert len(ids) == 1


async def test_an_idempotency_key_that_no_header_should_hold_is_refused(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/migrations", json=REQUEST, headers={"Idempotency-Key": "two words"})
    assert problem_of(answer)["problems"][0]["field"] == "header.Idempotency-Key"


@pytest.mark.parametrize("form", ["query", "body"])
async def test_a_dry_run_is_200_and_starts_nothing(
    client: httpx2.AsyncClient, controller: FakeController, form: str
) -> None:
    controller.problems_next = (Problem("agent-unreachable", "no agent answers on gw-2", "target"),)
    body = REQUEST | ({"dry_run": True} if form == "body" else {})
    answer = await client.post(
        "/v1/migrations", json=body, params={"dry_run": "true"} if form == "query" else None
    )
    assert answer.status_code == 200
    assert answer.json()["possible"] is False
    assert answer.json()["problems"][0]["code"] == "agent-unreachable"
    assert answer.json()["plan"]
    assert not controller.records


async def test_a_misspelt_query_parameter_is_refused_so_that_no_dry_run_becomes_real(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    problem = problem_of(await client.post("/v1/migrations?dryrun=true", json=REQUEST))
    assert "dry_run" in problem["detail"]
    assert not controller.records


async def test_the_list_is_newest_first_and_can_be_of_one_udn(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    await create(client, name="red net")
    await client.post("/v1/migrations", json=REQUEST)
    await client.post("/v1/migrations", json=REQUEST | {"udn": "red net"})
    everything = (await client.get("/v1/migrations")).json()["migrations"]
    assert {m["udn"] for m in everything} == {"blue", "red net"}
    red = (await client.get("/v1/migrations", params={"udn": "red net"})).json()["migrations"]
    assert [m["udn"] for m in red] == ["red net"]


async def test_status_tells_counts_times_and_warnings(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    started = (await client.post("/v1/migrations", json=REQUEST | {"transfer": "none"})).json()
    assert any("sessions" in w for w in started["warnings"])
    counts = Counts(
        read=10, created=6, identical=1, replaced=0, lost=1, refused={"port-taken": 2}, kinds={"tcp/4": 10}
    )
    await controller.enter(started["id"], Phase.COPYING, counts=counts)
    await controller.enter(started["id"], Phase.READY)
    now = (await client.get(f"/v1/migrations/{started['id']}")).json()
    assert now["counts"] == {
        "read": 10, "created": 6, "identical": 1, "replaced": 0, "refused": 2, "lost": 1,
        "refused_by_reason": {"port-taken": 2}, "kinds": {"tcp/4": 10},
    }  # fmt: skip
    assert now["phase_s"] == {"requested": 1.0, "copying": 1.0}
    assert list(now["phase_at"]) == ["requested", "copying", "ready"]
    assert any("refused" in w for w in now["warnings"])
    assert any("lost" in w for w in now["warnings"])


async def test_a_switch_is_ordered_with_202(client: httpx2.AsyncClient, controller: FakeController) -> None:
    started = (await client.post("/v1/migrations", json=REQUEST | {"trigger": "manual"})).json()
    answer = await client.post(f"/v1/migrations/{started['id']}/switch")
    assert answer.status_code == 202
    assert controller.records[started["id"]].switch_ordered


async def test_cancel_is_202_and_a_second_one_says_that_it_has_ended(client: httpx2.AsyncClient) -> None:
    started = (await client.post("/v1/migrations", json=REQUEST)).json()
    path = f"/v1/migrations/{started['id']}"
    assert (await client.delete(path)).status_code == 202
    assert (await client.get(path)).json()["phase"] == "rolled-back"
    assert problem_of(await client.delete(path))["status"] == 409


async def test_an_unknown_migration_is_404_on_every_route(client: httpx2.AsyncClient) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/switch")):
        answer = await client.request(method, f"/v1/migrations/nope{path}")
        assert "nope" in problem_of(answer)["detail"]
        assert answer.status_code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"overlap_s": -1}, "overlap_s"),
        ({"overlap_s": "60"}, "overlap_s"),
        ({"trigger": "later"}, "trigger"),
        ({"gateway": "yes"}, "gateway"),
        ({"target": ""}, "target"),
        ({"target": None}, "target"),
        ({"colour": 1}, "colour"),
    ],
)
async def test_a_wrong_field_is_named(
    client: httpx2.AsyncClient, change: dict[str, object], field: str
) -> None:
    problem = problem_of(await client.post("/v1/migrations", json=REQUEST | change))
    assert problem["status"] == 422
    assert [p["field"] for p in problem["problems"]] == [field]


async def test_old_migrations_come_from_the_history_and_say_so(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    now = (await client.post("/v1/migrations", json=REQUEST)).json()
    record = controller.records[now["id"]]
    controller.old = {
        now["id"]: record,
        "m0": replace(record, id="m0", phase=Phase.COMPLETED, created_at=record.created_at - 9),
        "x0": replace(record, id="x0", udn="gone", created_at=record.created_at - 99),
    }
    old = (await client.get("/v1/migrations/m0")).json()
    assert (old["id"], old["from_history"], now["from_history"]) == ("m0", True, False)
    assert problem_of(await client.get("/v1/migrations/m99"))["status"] == 404

    async def listed(**query: str) -> list[tuple[str, bool]]:
        answer = await client.get("/v1/migrations", params=query)
        assert answer.status_code == 200
        return [(one["id"], one["from_history"]) for one in answer.json()["migrations"]]

    assert await listed() == [(now["id"], False)]
    assert await listed(all="true") == [(now["id"], False), ("m0", True), ("x0", True)]
    assert await listed(all="true", udn="blue") == [(now["id"], False), ("m0", True)]


async def test_the_old_migrations_of_a_udn_that_is_gone_are_listed(
    client: httpx2.AsyncClient, controller: FakeController
) -> None:
    started = (await client.post("/v1/migrations", json=REQUEST)).json()
    controller.old = {"x0": replace(controller.records[started["id"]], id="x0", udn="gone")}
    controller.unknown_udns_are_refused = True
    answer = await client.get("/v1/migrations", params={"all": "true", "udn": "gone"})
    assert [one["id"] for one in answer.json()["migrations"]] == ["x0"]
    for query in ({"udn": "gone"}, {"udn": "never", "all": "true"}):
        assert problem_of(await client.get("/v1/migrations", params=query))["status"] == 404
