from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from ovnmig.contract import artifacts, differences
from ovnmig.service import examples

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return artifacts()


def test_the_contract_in_the_repository_is_what_the_code_says() -> None:
    assert differences(ROOT) == [], "run 'make contract'"


def test_generating_twice_gives_the_same_bytes(generated: dict[str, str]) -> None:
    assert artifacts() == generated


@pytest.mark.parametrize("name", ["api/openapi.json", "api/agent-openapi.json"])
def test_the_openapi_documents_are_valid(generated: dict[str, str], name: str) -> None:
    validate(json.loads(generated[name]))


@pytest.mark.parametrize("name", ["events", "history", "settings"])
def test_the_schemas_are_valid_json_schemas(generated: dict[str, str], name: str) -> None:
    OAS31Validator.check_schema(json.loads(generated[f"schemas/{name}.json"]))


def test_no_file_names_a_host(generated: dict[str, str]) -> None:
    for name, text in generated.items():
        addresses = re.findall(r"https?://([^/\"'\s`|]+)", text)
        assert set(addresses) <= {"json-schema.org", "127.0.0.1:8787"}, name


@pytest.mark.parametrize(
    ("component", "example"),
    [
        ("UdnCreate", examples.UDN_CREATE),
        ("UdnChange", examples.UDN_CHANGE),
        ("UdnAnswer", examples.UDN),
        ("GatewayAnswer", examples.GATEWAY),
        ("GatewayMove", examples.GATEWAY_MOVE),
        ("BfdAnswer", examples.BFD),
        ("BfdChange", examples.BFD_CHANGE),
        ("MigrationCreate", examples.MIGRATION_CREATE),
        ("MigrationAnswer", examples.MIGRATION),
        ("DryRunAnswer", examples.DRY_RUN),
        ("NodeAnswer", examples.NODE),
        ("EventAnswer", examples.EVENT),
        ("ReadyAnswer", examples.READY),
        ("ProblemDocument", examples.PROBLEM),
    ],
)
def test_every_example_fits_its_schema(
    generated: dict[str, str], component: str, example: dict[str, object]
) -> None:
    document = json.loads(generated["api/openapi.json"])
    schema = {"$ref": f"#/components/schemas/{component}", "components": document["components"]}
    OAS31Validator(schema).validate(example)


def test_every_operation_has_a_sentence_and_a_stable_name(generated: dict[str, str]) -> None:
    for name in ("api/openapi.json",):
        operations = [
            operation for path in json.loads(generated[name])["paths"].values() for operation in path.values()
        ]
        assert all(operation["description"] for operation in operations)
        ids = [operation["operationId"] for operation in operations]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(r"[a-z]+[A-Za-z]*", i) for i in ids)


def test_the_readme_lists_every_operation(generated: dict[str, str]) -> None:
    for path in json.loads(generated["api/openapi.json"])["paths"]:
        assert f"`{path}`" in generated["api/README.md"]
