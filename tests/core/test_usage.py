from __future__ import annotations

from ovnmig.core import usage


def test_only_rows_that_live_without_a_reference_need_to_be_deleted_by_name() -> None:
    held = {table for references in usage.REFERENCES.values() for table in references.values()}
    assert held | usage.ROOT_TABLES == set(usage.WRITTEN)
    assert not held & usage.ROOT_TABLES


def test_our_keys_of_a_map_column_are_known_and_those_of_others_are_not() -> None:
    assert usage.our_keys("Logical_Router", "options") == {"snat-ct-zone": "20.12"}
    assert usage.our_keys("Logical_Router", "name") == {}
    assert usage.our_keys("ACL", "match") == {}
