from __future__ import annotations

import httpx2

from ovnmig.service.app import create_app
from tests.service.fake import FakeController


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
