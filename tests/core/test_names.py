from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ovnmig.core import names

UDN_NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/"), min_size=1)
TRICKY = st.sampled_from(
    ["a", "a-int", "a-ext", "a-int-lsp", "a-ln", "ext-a", "a b", "a-b", 'a"b', "a@b", "a~b", "é", "e\u0301"]
)
ANY = st.one_of(UDN_NAMES, TRICKY)


def port_names(udn: str) -> set[str]:
    named = names.gateway_names(udn)
    router_ports = (named.inner_port, named.external_port)
    return {*router_ports, named.localnet_port, *(names.switch_port_name(port) for port in router_ports)}


def zone_keys(udn: str) -> set[str]:
    named = names.gateway_names(udn)
    datapaths = {named.router, named.external_switch}
    ends = {f"{name}_{end}" for name in datapaths for end in ("snat", "dnat")}
    return ends | {named.localnet_port, named.chassis_redirect_port}


@given(ANY, ANY)
def test_two_udns_never_share_a_port_name_a_zone_key_or_a_record(one: str, other: str) -> None:
    if one != other:
        assert not port_names(one) & port_names(other)
        assert not zone_keys(one) & zone_keys(other)
        assert names.record_name("o", one) != names.record_name("o", other)


@given(ANY)
def test_the_names_of_one_udn_differ_from_each_other(udn: str) -> None:
    assert len(port_names(udn)) == 5
    assert len(zone_keys(udn)) == 6


@given(ANY)
def test_port_names_hold_only_characters_that_need_no_escape_anywhere(udn: str) -> None:
    for name in port_names(udn):
        assert re.fullmatch(r"[A-Za-z0-9._~-]{1,80}", name)


def test_a_plain_name_stays_readable() -> None:
    named = names.gateway_names("blue.1")
    assert named.router == "ovnmig-blue.1"
    assert named.external_port == "ovnmig-blue.1-ext"
    assert named.chassis_redirect_port == "cr-ovnmig-blue.1-ext"


def test_the_router_keeps_any_name_as_it_is() -> None:
    assert names.router_name('bl "ue é') == 'ovnmig-bl "ue é'


@given(ANY, ANY, st.text(), st.text())
def test_gateway_chassis_rows_of_different_ports_or_chassis_have_different_names(
    one: str, other: str, chassis: str, another: str
) -> None:
    ports = [names.gateway_names(udn).external_port for udn in (one, other)]
    if (one, chassis) != (other, another):
        first, second = (
            names.gateway_chassis_name(p, c) for p, c in zip(ports, (chassis, another), strict=True)
        )
        assert first != second


@given(st.text(), ANY)
def test_a_record_name_is_an_identifier(owner: str, udn: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{1,62}", names.record_name(owner, udn))


def test_owner_and_name_cannot_be_mixed_up() -> None:
    assert names.record_name("a", "bc") != names.record_name("ab", "c")


@given(st.text(), ANY)
def test_macs_are_locally_administered_unicast_and_differ_by_role(owner: str, udn: str) -> None:
    inner, external = (names.mac(owner, udn, role) for role in ("inner", "external"))
    assert inner != external
    for mac in (inner, external):
        assert re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac)
        assert int(mac[:2], 16) & 0b11 == 0b10
    assert names.mac(owner, udn, "inner") == inner
