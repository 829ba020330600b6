"""The OpenAPI document of the control API, without a running agent."""

from __future__ import annotations

from typing import Any, cast

from ovnmig.agent.app import create_app
from ovnmig.agent.parts import Parts


def agent_openapi(version: str) -> dict[str, Any]:
    """The OpenAPI document of ``ovnmig agent``."""
    nobody = cast(Parts, object())  # describing the routes calls nothing
    return create_app(nobody, version).openapi()
