"""The whole Northbound database as plain data, to be compared before and after."""

from __future__ import annotations

import json
from typing import Any

from tests.sandbox.cluster import CENTRAL, Cluster

Dump = dict[str, dict[str, dict[str, Any]]]

VOLATILE = {
    "NB_Global": {
        "nb_cfg",
        "nb_cfg_timestamp",
        "sb_cfg",
        "sb_cfg_timestamp",
        "hv_cfg",
        "hv_cfg_timestamp",
    },
    "Connection": {"status", "is_connected"},
}
"""Counters, timestamps and the state of connections: they go on by themselves."""


def dump(cluster: Cluster) -> Dump:
    """Every table by row id, without what is volatile."""
    socket = f"unix:/run/ovnmig/{CENTRAL}/ovn/ovnnb_db.sock"
    words = ["ovsdb-client", "-f", "json", "--no-headings", "dump", socket, "OVN_Northbound"]
    found: Dump = {}
    for line in cluster.run(*words, node=CENTRAL).splitlines():
        if not line.strip():
            continue
        table = json.loads(line)
        name = table["caption"].removesuffix(" table")
        rows = [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]
        drop = VOLATILE.get(name, set())
        found[name] = {row["_uuid"][1]: {k: sets(v) for k, v in row.items() if k not in drop} for row in rows}
    return found


def sets(value: Any) -> Any:
    """Sets and maps have no order."""
    if isinstance(value, list) and len(value) == 2 and value[0] in ("set", "map"):
        return [value[0], sorted(value[1], key=json.dumps)]
    return value


def differences(before: Dump, after: Dump) -> list[str]:
    """What differs, a line each; empty when nothing does."""
    found: list[str] = []
    for table in sorted(before.keys() | after.keys()):
        old, new = before.get(table, {}), after.get(table, {})
        found += [f"{table}: gone: {old[row]}" for row in sorted(old.keys() - new.keys())]
        found += [f"{table}: new: {new[row]}" for row in sorted(new.keys() - old.keys())]
        for row in sorted(old.keys() & new.keys()):
            found += [
                f"{table} {row}: {column}: {old[row][column]} -> {new[row][column]}"
                for column in old[row]
                if old[row][column] != new[row][column]
            ]
    return found


def owned_rows(data: Dump, udn: str) -> list[str]:
    """The rows that carry ovnmig's mark for this UDN."""
    mark = ["ovnmig-udn", udn]
    return [
        f"{table}: {row}"
        for table, rows in data.items()
        for row in rows.values()
        if mark in row.get("external_ids", ["map", []])[1]
    ]
