"""The plan of a cluster: names and addresses as ovn-fake-multinode gives them, and what is refused."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devenv.guest.plan import PlanError, Role, plan_from


def test_without_options_there_are_a_central_node_and_three_chassis() -> None:
    plan = plan_from({})
    assert [node.name for node in plan.nodes] == [
        "ovn-central-az1",
        "ovn-chassis-1",
        "ovn-chassis-2",
        "ovn-chassis-3",
    ]
    assert [str(node.address) for node in plan.nodes] == [
        "170.168.0.2",
        "170.168.0.3",
        "170.168.0.4",
        "170.168.0.5",
    ]


def test_gateways_come_between_central_and_chassis() -> None:
    plan = plan_from({"GW_COUNT": "2", "CHASSIS_COUNT": "1"})
    assert [(node.role, str(node.address)) for node in plan.nodes] == [
        (Role.CENTRAL, "170.168.0.2"),
        (Role.GATEWAY, "170.168.0.3"),
        (Role.GATEWAY, "170.168.0.4"),
        (Role.CHASSIS, "170.168.0.5"),
    ]
    assert [node.name for node in plan.chassis] == ["ovn-gw-1", "ovn-gw-2", "ovn-chassis-1"]


def test_prefixes_and_the_first_address_are_the_callers() -> None:
    plan = plan_from(
        {
            "CENTRAL_PREFIX": "c",
            "CHASSIS_PREFIX": "hv",
            "IP_HOST": "10.9.0.0",
            "IP_CIDR": "24",
            "IP_START": "10.9.0.10",
        }
    )
    assert [node.name for node in plan.nodes] == ["c1", "hv1", "hv2", "hv3"]
    assert str(plan.nodes[3].address) == "10.9.0.13"
    assert plan.remote(6642) == "tcp:10.9.0.10:6642"


def test_an_ipv6_underlay_has_brackets_and_a_larger_mtu() -> None:
    plan = plan_from({"IP_HOST": "fd01::", "IP_CIDR": "64", "ENABLE_SSL": "yes"})
    assert plan.remote(6641) == "ssl:[fd01::2]:6641"
    assert plan.underlay_mtu == 1578


def test_a_full_packet_of_a_vm_fits_into_the_underlay() -> None:
    assert plan_from({}).underlay_mtu == 1500 + 58


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"CHASSIS_COUNT": "many"}, "CHASSIS_COUNT"),
        ({"CHASSIS_COUNT": "-1"}, "CHASSIS_COUNT"),
        ({"CHASSIS_COUNT": "0"}, "at least 1"),
        ({"CHASSIS_COUNT": "101"}, "CHASSIS_COUNT"),
        ({"CENTRAL_COUNT": "2"}, "CENTRAL_COUNT"),
        ({"OVN_DB_CLUSTER": "yes"}, "OVN_DB_CLUSTER"),
        ({"ENABLE_SSL": "maybe"}, "ENABLE_SSL"),
        ({"OVN_DP_TYPE": "dpdk"}, "OVN_DP_TYPE"),
        ({"IP_HOST": "10.0.0.1", "IP_CIDR": "24"}, "IP_HOST"),
        ({"IP_START": "nowhere"}, "IP_START"),
        ({"IP_START": "10.0.0.1"}, "IP_START"),
        ({"IP_START": "170.168.0.0"}, "IP_START"),
        ({"IP_HOST": "10.0.0.0", "IP_CIDR": "30"}, "do not fit"),
        ({"CHASSIS_PREFIX": "a b"}, "node name"),
        ({"CHASSIS_PREFIX": "../x"}, "node name"),
        ({"CHASSIS_PREFIX": "x", "CENTRAL_PREFIX": "x"}, "one name"),
        ({"OUTSIDE_VLAN": "4095"}, "OUTSIDE_VLAN"),
    ],
)
def test_options_that_make_no_cluster_are_refused_by_name(options: dict[str, str], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        plan_from(options)


def test_an_unknown_node_is_answered_with_those_that_exist() -> None:
    with pytest.raises(PlanError, match="ovn-chassis-2"):
        plan_from({}).node("ovn-chassis-9")


@given(gateways=st.integers(0, 40), chassis=st.integers(1, 40))
def test_no_two_nodes_share_a_name_an_address_a_link_or_a_mac(gateways: int, chassis: int) -> None:
    nodes = plan_from({"GW_COUNT": str(gateways), "CHASSIS_COUNT": str(chassis)}).nodes
    assert len({node.name for node in nodes}) == len(nodes)
    assert len({node.address for node in nodes}) == len(nodes)
    assert len({mac for node in nodes for mac in (node.underlay_mac, node.provider_mac)}) == 2 * len(nodes)
    links = {peer for node in nodes for peer in (node.underlay_peer, node.provider_peer)}
    assert len(links) == 2 * len(nodes)
    assert all(len(peer) <= 15 for peer in links)
    network = ipaddress.ip_network("170.168.0.0/16")
    assert all(node.address in network for node in nodes)
