from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface

from ovnmig.core.conflicts import (
    Findings,
    address_users,
    check_names,
    check_neighbours,
    check_next_hops,
    check_subnets_of_others,
    check_vips_free,
)
from ovnmig.core.document import UdnDocument, encode
from ovnmig.core.views import NatView, NbView, RecordRow
from tests.core.worlds import REQUEST, port, router, router_port, spec, switch


def vip_problems(nb: NbView, own: frozenset[str] = frozenset()) -> list[str]:
    found = Findings()
    check_vips_free(REQUEST, nb, set(own), address_users(nb, set(own)), found)
    assert all(problem.code == "vip-in-use" and problem.conflict for problem in found.problems)
    return [problem.message for problem in found.problems]


def test_a_vip_held_by_a_router_port_a_nat_rule_or_a_balancer_is_in_use() -> None:
    by_port = NbView(routers=(router("r1", router_port("p1", "172.16.1.100/24", "fe80::1/64")),))
    assert vip_problems(by_port) == ["VIP 172.16.1.100 is in use by port 'p1' of router 'r1'; choose another"]
    nat = NatView("n", "snat", "FD01:0::100", "fd00::/64")
    assert "a NAT rule of router 'r1'" in vip_problems(NbView(routers=(router("r1", nats=(nat,)),)))[0]
    by_balancer = NbView(load_balancer_vips=frozenset({"172.16.1.100", "", "junk"}))
    assert "a load balancer" in vip_problems(by_balancer)[0]


def test_the_udns_own_router_does_not_count() -> None:
    nb = NbView(routers=(router("r1", router_port("p1", "172.16.1.100/24")),))
    assert vip_problems(nb, frozenset({"uuid-r1"})) == []


def test_the_next_hop_of_another_udn_on_the_same_wire_cannot_be_a_vip() -> None:
    other = replace(spec(), name="other", nexthops=(REQUEST.vips[0].ip,))
    records = (
        RecordRow("1", "other", 1, encode(UdnDocument(other, ()))),
        RecordRow("2", "broken", 1, "{"),
        RecordRow("3", REQUEST.name, 1, encode(UdnDocument(other, ()))),
    )
    found = Findings()
    check_next_hops(REQUEST, NbView(records=records), found)
    assert [(p.code, p.field) for p in found.problems] == [("vip-is-gateway", "vips")]
    assert "of UDN 'other'" in found.problems[0].message
    apart = Findings()
    check_next_hops(replace(REQUEST, vlan=7), NbView(records=records), apart)
    assert apart.problems == []


def name_problems(nb: NbView, *own: str) -> list[str]:
    found = Findings()
    check_names("blue", nb, set(own), found)
    assert all(problem.code == "name-in-use" and problem.conflict for problem in found.problems)
    return [problem.message.split(" that is")[0] for problem in found.problems]


def test_names_held_by_somebody_else_are_conflicts() -> None:
    nb = NbView(
        switches=(switch("ovnmig_ext-blue"), switch("net", port("ovnmig-blue-ln"))),
        routers=(router("ovnmig-blue", router_port("x")), router("r", router_port("ovnmig-blue-int"))),
    )
    assert name_problems(nb) == [
        "there is a router 'ovnmig-blue'",
        "there is a router port 'ovnmig-blue-int'",
        "there is a switch 'ovnmig_ext-blue'",
        "there is a switch port 'ovnmig-blue-ln'",
    ]
    own = ("uuid-ovnmig-blue", "uuid-ovnmig-blue-int", "uuid-ovnmig_ext-blue", "uuid-ovnmig-blue-ln")
    assert name_problems(nb, *own) == []


def neighbour_problems(nb: NbView, switch_uuid: str | None = "uuid-net", *own: str) -> list[str]:
    found = Findings()
    gateways = (ip_interface("10.0.0.1/24"), ip_interface("fd00::1/64"))
    check_neighbours(gateways, nb, switch_uuid, set(own), found)
    return [problem.message for problem in found.problems]


def test_a_gateway_address_of_a_vm_or_another_router_of_the_switch_is_taken() -> None:
    vm = NbView(switches=(switch("net", port("vm1", "00:00:00:00:00:01 10.0.0.9 fd00::1", "unknown")),))
    assert neighbour_problems(vm) == [
        "gateway address fd00::1 is held by port 'vm1' of the switch; name another one"
    ]
    lsp = port("to-r1", "router", kind="router", options={"router-port": "p1"})
    attached = NbView(
        switches=(switch("net", lsp),), routers=(router("r1", router_port("p1", "10.0.0.1/24")),)
    )
    assert "'to-r1'" in neighbour_problems(attached)[0]
    assert neighbour_problems(attached, "uuid-net", "uuid-to-r1") == []


def test_other_switches_do_not_count_and_a_switch_of_ours_does() -> None:
    elsewhere = NbView(switches=(switch("far", port("vm1", "00:00:00:00:00:01 10.0.0.1")),))
    assert neighbour_problems(elsewhere) == []
    assert neighbour_problems(elsewhere, None) == []
    assert len(neighbour_problems(elsewhere, None, "uuid-far")) == 1


def test_a_router_port_nobody_knows_holds_nothing() -> None:
    nb = NbView(switches=(switch("net", port("to-r1", "router", kind="router")),))
    assert neighbour_problems(nb) == []


def overlap_problems(switch_uuid: str | None, *own: str, **marks: str) -> list[str]:
    """The request for 10.0.0.0/24 on a switch whose other router has 10.0.0.128/25."""
    facing = port("green-lsp", kind="router", options={"router-port": "green-int"})
    green = router("green", router_port("green-int", "junk", "10.0.0.129/25"), external_ids=marks)
    elsewhere = router("far", router_port("far-int", "10.0.0.1/24"), external_ids=marks)
    found = Findings()
    nb = NbView(switches=(switch("net", facing), switch("other")), routers=(green, elsewhere))
    check_subnets_of_others(REQUEST, switch_uuid, nb, set(own), found)
    assert all(problem.code == "subnets-overlap" and problem.conflict for problem in found.problems)
    return [problem.message for problem in found.problems]


def test_overlapping_subnets_of_two_udns_on_one_switch_are_refused_whoever_owns_it() -> None:
    marks = {"ovnmig-owner": "somebody", "ovnmig-udn": "green"}
    words = ["subnet 10.0.0.0/24 overlaps 10.0.0.128/25 of UDN 'green' on the same switch"]
    assert overlap_problems("uuid-net", **marks) == words
    assert overlap_problems(None, "uuid-net", **marks) == words
    assert overlap_problems("uuid-other", **marks) == []
    assert overlap_problems("uuid-net", "uuid-green", **marks) == []
    assert overlap_problems("uuid-net") == [], "a router that is no UDN's may share the subnet"


def test_a_problem_is_noted_once() -> None:
    found = Findings()
    found.add("a", "b", "c")
    found.add("a", "b", "c")
    assert len(found.problems) == 1
