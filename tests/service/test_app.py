from __future__ import annotations

import json

import httpx2
import pytest

from ovnmig.service.app import create_app
from ovnmig.service.fields import RequestModel
from ovnmig.service.wire_bfd import BfdChange
from ovnmig.service.wire_migration import MigrationCreate
from ovnmig.service.wire_udn import GatewayMove, UdnChange, UdnCreate
from tests.service.fake import FakeController
from tests.service.lib import UDN, create, problem_of

NO_FIELD_TAKES: tuple[object, ...] = ({}, -1, 1e308, float("nan"), "a\nb", "x" * 201, [None], [[]], ["a\nb"])
MIGRATION = {"udn": "blue", "target": "gw-2"}


async def test_the_description_of_the_api_is_served_and_no_page_that_loads_from_elsewhere(
    client: httpx2.AsyncClient,
) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["info"]["version"] == "1.2.3"
    for page in ("/docs", "/redoc"):
        assert (await client.get(page)).status_code == 404


async def test_two_apps_keep_their_controllers_apart() -> None:
    first, second = FakeController(), FakeController()
    for controller in (first, second):
        app = create_app(controller, version="0")
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            name = "first" if controller is first else "second"
            body = {
                "name": name,
                "subnets": ["10.0.0.0/8"],
                "vips": ["192.0.2.1/24"],
                "physical_network": "p",
            }
            assert (await client.post("/v1/udns", json=body)).status_code == 201
    assert (list(first.states), list(second.states)) == (["first"], ["second"])


@pytest.mark.parametrize(
    ("method", "path", "model", "body"),
    [
        ("POST", "/v1/udns", UdnCreate, UDN),
        ("PUT", "/v1/udns/blue", UdnChange, UDN),
        ("PUT", "/v1/udns/blue/gateway", GatewayMove, {"target": "gw-2"}),
        ("POST", "/v1/migrations", MigrationCreate, MIGRATION),
        ("PUT", "/v1/bfd", BfdChange, {"profile": "fast"}),
    ],
)
async def test_hostile_values_of_every_field_are_refused_by_name_and_change_nothing(
    client: httpx2.AsyncClient,
    controller: FakeController,
    method: str,
    path: str,
    model: type[RequestModel],
    body: dict[str, object],
) -> None:
    await create(client)
    before = dict(controller.states)
    for field in model.model_fields:
        for value in NO_FIELD_TAKES:
            content = json.dumps(body | {field: value})
            headers = {"Content-Type": "application/json"}
            answer = await client.request(method, path, content=content, headers=headers)
            problem = problem_of(answer)
            assert problem["status"] == 422, (field, value)
            assert {one["field"].partition("[")[0] for one in problem["problems"]} == {field}
            assert not any("Input should" in one["message"] for one in problem["problems"])
    assert (controller.states, controller.records, controller.bfd_now) == (before, {}, {})
