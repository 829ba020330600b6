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


def test_what_is_followed_is_what_is_written_what_holds_it_and_what_is_read() -> None:
    followed = usage.northbound_columns()
    assert followed["Gateway_Chassis"] == ("name", "chassis_name", "priority", "external_ids")
    assert set(followed["Logical_Router_Port"]) >= {"mac", "gateway_chassis", "ha_chassis_group"}
    assert followed["NB_Global"] == ("nb_cfg", "options")


def test_the_description_names_keys_and_releases() -> None:
    northbound = usage.describe()["OVN_Northbound"]
    assert isinstance(northbound, dict)
    assert northbound["written"]["Logical_Router"] == {
        "name": {"since": "23.03", "required": True},
        "options": {"since": "23.03", "required": True, "keys": {"snat-ct-zone": "20.12"}},
        "ports": {"since": "23.03", "required": True},
        "static_routes": {"since": "23.03", "required": True},
        "nat": {"since": "23.03", "required": True},
        "external_ids": {"since": "23.03", "required": True},
    }
