"""``schemas/ovn-usage.json`` against OVN's own schemas: the installed one, and those of the sandbox's suites
if built."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ovnmig.agent import localdb
from ovnmig.core import usage
from tests.house.tree import ROOT

SCHEMAS = {
    "OVN_Northbound": "ovn/ovn-nb.ovsschema",
    "OVN_Southbound": "ovn/ovn-sb.ovsschema",
    "Open_vSwitch": "openvswitch/vswitch.ovsschema",
}


def shares() -> list[Path]:
    """Folders with OVN's schemas: this machine's packages and the root file systems the sandbox has built."""
    images = Path.home() / ".cache/ovnmig/images"
    built = sorted(images.glob("rootfs-*/tree/usr/share"))
    return [share for share in (Path("/usr/share"), *built) if (share / SCHEMAS["OVN_Northbound"]).is_file()]


def described() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "schemas/ovn-usage.json").read_text(encoding="utf-8"))
    return document


def uses() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    for database in SCHEMAS:
        for kind in ("written", "read"):
            for table, columns in described()[database].get(kind, {}).items():
                for column, use in columns.items():
                    yield database, table, column, use


def test_every_used_table_and_column_is_in_every_schema_unless_it_may_be_missing() -> None:
    assert shares(), "install ovn-common: its schemas are what this test compares with"
    lacking = []
    for share in shares():
        schemas = {name: json.loads((share / file).read_text()) for name, file in SCHEMAS.items()}
        for database, table, column, use in uses():
            columns = schemas[database]["tables"].get(table, {}).get("columns", {})
            if use["required"] and column not in columns:
                lacking.append(f"{share}: {database} {table}.{column}")
    assert not lacking


def test_keys_are_named_for_columns_that_are_maps_only() -> None:
    schema = {name: json.loads((shares()[0] / file).read_text()) for name, file in SCHEMAS.items()}
    for database, table, column, use in uses():
        kind = schema[database]["tables"][table]["columns"][column]["type"]
        if use.get("keys"):
            assert "value" in kind, f"{table}.{column}"


def test_only_non_root_tables_are_held_by_references_and_the_references_are_strong() -> None:
    tables = json.loads((shares()[0] / SCHEMAS["OVN_Northbound"]).read_text())["tables"]
    for table, references in usage.REFERENCES.items():
        for column, child in references.items():
            key = tables[table]["columns"][column]["type"]["key"]
            assert (key["refTable"], key["refType"]) == (child, "strong")
            assert not tables[child].get("isRoot", False)
    assert all(tables[table]["isRoot"] for table in (*usage.ROOT_TABLES, usage.RECORD_TABLE))


def test_the_agent_reads_no_more_than_is_listed() -> None:
    listed = {table: set(columns) for table, columns in usage.READ_LOCAL.items()}
    assert {table: set(columns) for table, columns in localdb._COLUMNS.items()} == listed
