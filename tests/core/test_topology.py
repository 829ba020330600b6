from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_network

import pytest

from ovnmig.core import topology, usage
from ovnmig.core.rows import ColumnValue, Parent, Row
from ovnmig.core.udn import Member
from tests.core.worlds import IPV4, REQUEST, spec

PAIR = (Member(20, "b"), Member(10, "a"))


def by_role(rows: tuple[Row, ...]) -> dict[str, Row]:
    assert len({row.role for row in rows}) == len(rows)
    return {row.role: row for row in rows}


def columns(role: str, **changes: object) -> Mapping[str, ColumnValue]:
    changed = replace(spec(), **changes)  # type: ignore[arg-type]
    return by_role(topology.rows(changed, PAIR))[role].columns


def test_a_dual_stack_udn_owns_these_rows() -> None:
    roles = [row.role for row in topology.rows(spec(), PAIR)]
    assert roles == [
        "router",
        "inner-port",
        "inner-lsp",
        "external-switch",
        "localnet",
        "external-port",
        "external-lsp",
        "route:4",
        "route:6",
        "snat:10.0.0.0/24",
        "snat:fd00::/64",
        "gateway:b",
        "gateway:a",
    ]


def test_the_router_asks_for_its_zone_in_the_row_that_creates_it() -> None:
    assert columns("router", snat_zone=40000)["options"] == {"snat-ct-zone": "40000"}
    assert columns("router", snat_zone=None)["options"] == {}


def test_the_inner_port_advertises_ipv6_only_where_there_is_some() -> None:
    assert columns("inner-port")["networks"] == ("10.0.0.1/24", "fd00::1/64")
    assert columns("inner-port")["ipv6_ra_configs"] == {"address_mode": "slaac", "send_periodic": "true"}
    only_four = by_role(topology.rows(spec(IPV4), PAIR))
    assert only_four["inner-port"].columns["ipv6_ra_configs"] == {}
    assert "route:6" not in only_four


def test_an_existing_switch_is_attached_to_by_its_uuid() -> None:
    lsp = by_role(topology.rows(spec(), PAIR))["inner-lsp"]
    assert lsp.parent == Parent("ports", uuid="uuid-net", table="Logical_Switch")
    assert lsp.columns["options"] == {"router-port": "ovnmig-blue-int"}


def test_a_switch_of_ours_is_a_row_like_the_others() -> None:
    rows = by_role(topology.rows(spec(replace(REQUEST, switch=None, create_switch=True)), PAIR))
    assert rows["switch"].columns == {"name": "blue"}
    assert rows["inner-lsp"].parent == Parent("ports", role="switch")


def test_the_vip_is_the_gateway_ports_own_address_and_the_source_of_every_subnet() -> None:
    assert columns("external-port")["networks"] == ("172.16.1.100/24", "fd01::100/64")
    assert columns("snat:10.0.0.0/24")["external_ip"] == "172.16.1.100"
    assert columns("snat:fd00::/64")["external_ip"] == "fd01::100"
    assert columns("external-lsp")["options"] == {
        "router-port": "ovnmig-blue-ext",
        "nat-addresses": "router",
    }


def test_vlan_and_port_range_stand_where_ovn_wants_them() -> None:
    assert columns("localnet")["tag"] == ()
    assert columns("localnet", vlan=7)["tag"] == (7,)
    assert columns("snat:10.0.0.0/24")["external_port_range"] == ""
    assert columns("snat:10.0.0.0/24", port_range=(1024, 2047))["external_port_range"] == "1024-2047"


def test_default_routes_leave_through_the_gateway_port() -> None:
    assert columns("route:6") == {
        "ip_prefix": "::/0",
        "nexthop": "fd01::1",
        "output_port": "ovnmig-blue-ext",
    }


def test_every_member_has_a_row_in_the_ports_set() -> None:
    row = by_role(topology.rows(spec(), PAIR))["gateway:a"]
    assert row.columns == {"name": "ovnmig-blue-ext@a", "chassis_name": "a", "priority": 10}
    assert row.parent == Parent("gateway_chassis", role="external-port")


def test_every_column_and_key_written_is_listed_as_used() -> None:
    with_switch = spec(replace(REQUEST, switch=None, create_switch=True, vlan=7))
    for row in topology.rows(with_switch, PAIR):
        assert row.columns.keys() <= usage.WRITTEN[row.table].keys()
        for column, value in row.columns.items():
            if isinstance(value, Mapping):
                assert value.keys() <= usage.our_keys(row.table, column).keys()


def test_parents_come_before_their_children_and_hold_that_table() -> None:
    seen: dict[str, str] = {}
    for row in topology.rows(spec(), PAIR):
        parent = row.parent
        if parent is None:
            assert row.table in usage.ROOT_TABLES
        else:
            table = seen[parent.role] if parent.role is not None else str(parent.table)
            assert usage.REFERENCES[table][parent.column] == row.table
        seen[row.role] = row.table


def test_a_subnet_without_a_vip_of_its_family_is_an_error() -> None:
    with pytest.raises(ValueError, match="no IPv6 VIP"):
        topology.rows(replace(spec(IPV4), subnets=(ip_network("fd00::/64"),)), PAIR)
