from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface, ip_network

import pytest

from ovnmig.core.udn import Problem, Refused, UdnRequest, UdnSpec
from ovnmig.core.validate import resolve
from ovnmig.core.views import NbView, SbView
from tests.core.worlds import IPV4, NB, OWNER, REQUEST, SB, owned, port, router, spec, switch


def refused(
    request: UdnRequest, nb: NbView = NB, sb: SbView = SB, current: UdnSpec | None = None
) -> dict[str, Problem]:
    with pytest.raises(Refused) as caught:
        resolve(request, nb, sb, owner=OWNER, current=current)
    return {problem.code: problem for problem in caught.value.problems}


def test_what_is_left_open_is_chosen() -> None:
    made = spec()
    assert made.gateway_addresses == (ip_interface("10.0.0.1/24"), ip_interface("fd00::1/64"))
    assert made.switch_uuid == "uuid-net"
    assert made.snat_zone is not None
    assert made.inner_mac != made.external_mac
    assert resolve(REQUEST, NB, SB, owner="other").inner_mac != made.inner_mac


def test_the_callers_word_counts() -> None:
    wish = replace(IPV4, gateway_addresses=(ip_interface("10.0.0.254/24"),), snat_zone=40000)
    made = spec(wish)
    assert made.gateway_addresses == wish.gateway_addresses
    assert made.snat_zone == 40000


def test_a_change_keeps_what_it_does_not_name() -> None:
    now = replace(
        spec(),
        gateway_addresses=(ip_interface("10.0.0.254/24"), ip_interface("fd00::fe/64")),
        snat_zone=50000,
        inner_mac="0e:00:00:00:00:01",
        external_mac="0e:00:00:00:00:02",
    )
    wish = replace(REQUEST, vips=(ip_interface("172.16.1.101/24"), REQUEST.vips[1]), switch=None)
    made = resolve(wish, NB, SB, owner=OWNER, current=now)
    assert made == replace(now, vips=wish.vips)


def test_new_subnets_get_new_gateway_addresses() -> None:
    wish = replace(REQUEST, subnets=(ip_network("10.5.0.0/24"), REQUEST.subnets[1]))
    made = resolve(wish, NB, SB, owner=OWNER, current=spec())
    assert made.gateway_addresses[0] == ip_interface("10.5.0.1/24")


def test_a_udn_cannot_be_renamed() -> None:
    assert "name-changed" in refused(replace(REQUEST, name="green"), current=spec())


def test_an_unknown_chassis_is_refused_with_the_ones_there_are() -> None:
    problem = refused(replace(REQUEST, chassis=("a", "nine")))["unknown-chassis"]
    assert "known chassis: a, b, c, x" in problem.message
    by_host = refused(replace(REQUEST, chassis=("a.example", "a")))["unknown-chassis"]
    assert "the host of that name is chassis 'a'" in by_host.message
    assert (
        "known chassis: none"
        in refused(replace(REQUEST, chassis=("a",)), sb=SbView())["unknown-chassis"].message
    )


def test_no_eligible_chassis_and_an_unmapped_network_are_refused() -> None:
    assert refused(replace(REQUEST, chassis=("x",)))["no-eligible-chassis"].conflict
    assert "physical-network-unmapped" in refused(replace(REQUEST, physical_network="zzz"))
    assert refused(replace(REQUEST, physical_network="")).keys() == {"physical-network-missing"}


def test_an_unknown_anchor_is_refused_with_the_ports_there_are() -> None:
    problem = refused(replace(REQUEST, anchor="vm9"))["unknown-anchor"]
    assert "it has: vm1" in problem.message
    empty = NbView(switches=(switch("net"),))
    assert "it has: none yet" in refused(replace(REQUEST, anchor="vm9"), empty)["unknown-anchor"].message
    assert spec(replace(REQUEST, anchor="vm1")).anchor == "vm1"


def test_an_anchor_on_a_switch_of_ours_is_found() -> None:
    nb = NbView(
        switches=(switch("blue", port("vm1")),), owned=(owned("uuid-blue", "switch", "Logical_Switch"),)
    )
    wish = replace(REQUEST, switch=None, create_switch=True, anchor="vm1")
    assert resolve(wish, nb, SB, owner=OWNER, current=spec()).switch_uuid is None


def test_everything_wrong_is_told_at_once() -> None:
    nb = NbView(routers=(router("ovnmig-bl/ue", options={"snat-ct-zone": "40000"}),))
    found = refused(
        replace(IPV4, name="bl/ue", switch="gone", vlan=0, snat_zone=40000, chassis=("nine",)), nb
    )
    assert found.keys() == {
        "bad-name",
        "bad-vlan",
        "name-in-use",
        "no-eligible-chassis",
        "snat-zone-taken",
        "unknown-chassis",
        "unknown-switch",
    }
    assert found["name-in-use"].conflict
    assert not found["bad-vlan"].conflict
