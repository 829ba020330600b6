"""What every test shares: one event loop implementation, hypothesis without deadlines, no blocking loop."""

from __future__ import annotations

import os

import pytest
from hypothesis import configuration, settings

configuration.set_hypothesis_home_dir(".cache/hypothesis")
# A deadline would make a slow machine fail a correct test. On the integration machine the examples are the same
# each time; elsewhere they are new ones, and a failure prints what repeats it.
settings.register_profile("here", deadline=None, print_blob=True)
settings.register_profile("integration", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("integration" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as ovnmig does; the anyio plugin would try trio as well."""
    return "asyncio"
