from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ovnmig.service.app import create_app
from tests.service.fake import FakeController, node


def app_of_a_small_world() -> schemathesis.BaseSchema:
    """An app with nodes and events to answer with; streams would never end, so they are tested elsewhere."""
    controller = FakeController(nodes_now=(node("gw-1"), node("gw-2", agent=False)))
    app = create_app(controller, version="0", allowed_hosts=["testserver"])  # the name schemathesis asks for
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    return schema.exclude(operation_id="streamEvents")


schema = app_of_a_small_world()


@pytest.mark.timeout(300)
@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_the_document_promises(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate(
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_headers_conformance,
            response_schema_conformance,
        ]
    )


def test_the_document_is_valid_openapi_without_the_frameworks_error_schema() -> None:
    document = create_app(FakeController(), version="0").openapi()
    validate(document)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert "servers" not in document
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            refused = operation["responses"].get("422", {"$ref": "#/components/responses/Problem422"})
            assert refused == {"$ref": "#/components/responses/Problem422"}, f"{method} {path}"
    for response in document["components"]["responses"].values():
        assert list(response["content"]) == ["application/problem+json"]


def test_the_world_under_test_is_not_empty() -> None:
    assert len(list(schema.get_all_operations())) >= 15
