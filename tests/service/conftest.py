"""The application over the fake controller, reached without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from ovnmig.service.app import create_app
from tests.service.fake import FakeController


@pytest.fixture
async def controller() -> FakeController:
    return FakeController()


@pytest.fixture
async def client(controller: FakeController) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(create_app(controller, version="1.2.3"), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as opened:
        yield opened
