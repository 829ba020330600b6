"""What every test shares: one event loop implementation, hypothesis without deadlines, no blocking loop."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import configuration, settings

configuration.set_hypothesis_home_dir(".cache/hypothesis")
# A deadline would make a slow machine fail a correct test. On the integration machine the examples are the
# same each time; elsewhere they are new ones, and a failure prints what repeats it.
settings.register_profile("here", deadline=None, print_blob=True)
settings.register_profile("integration", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("integration" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as ovnmig does; the anyio plugin would try trio as well."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_blocking_call_on_the_loop() -> Iterator[None]:
    """A blocking call (sleep, file, socket, lock) made on a running event loop raises BlockingError.

    It would stall every migration that the process runs; such calls belong into a thread (asyncio.to_thread).
    Only calls made by the rooms that run on a loop count, not those of a test's own preparations.
    """
    with blockbuster_ctx(["ovnmig.agent", "ovnmig.drivers", "ovnmig.engine", "ovnmig.service"]):
        yield
