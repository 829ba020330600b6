from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ovnmig.agent import ovs
from ovnmig.agent.localdb import Bridge, LocalView
from tests.agent.views import interface, port, view

MAPPED = {"ovn-bridge-mappings": "other:br-o, public:br-ex"}


def test_the_chassis_own_settings_go_before_the_general_ones() -> None:
    ids = {
        "system-id": "a",
        "ovn-encap-ip": "10.0.0.1, 10.0.0.2",
        "ovn-encap-ip-b": "fd00::2",
        "ovn-bridge-b": "br-b",
        "ovn-bridge-mappings-b": "p:x",
        **MAPPED,
    }
    found = view(ids)
    assert ovs.system_id(found) == "a"
    assert (ovs.encap_ip(found, "a"), ovs.encap_ip(found, "b")) == ("10.0.0.1", "fd00::2")
    assert (ovs.integration_bridge(found, "a"), ovs.integration_bridge(found, "b")) == ("br-int", "br-b")
    assert ovs.bridge_mappings(found, "a") == {"other": "br-o", "public": "br-ex"}
    assert ovs.bridge_mappings(found, "b") == {"p": "x"}
    assert ovs.bridge_mappings(view({"ovn-bridge-mappings": "bad,:x,y:,,net:work:br"}), "a") == {
        "net:work": "br"
    }


@pytest.mark.parametrize(
    ("bridge", "words"),
    [
        (None, "does not exist"),
        (Bridge("br-ex", {}, (port("br-ex", interface("br-ex", "internal")),)), "has no uplink"),
        (Bridge("br-ex", {}, (port("p", interface("p", "patch")),)), "has no uplink"),
        (Bridge("br-ex", {}, (port("e", interface("eth9", up=False)),)), "'eth9'"),
        (Bridge("br-ex", {}, (port("bond", interface("e1", up=False), interface("e2")),)), ""),
    ],
)
def test_what_is_wrong_with_an_uplink_is_said(bridge: Bridge | None, words: str) -> None:
    found = ovs.uplink_problem(view(MAPPED, **({"ex": bridge} if bridge else {})), "a", "public")
    assert words in found
    assert bool(words) == bool(found)


def test_an_unmapped_network_names_those_that_are_mapped() -> None:
    assert ovs.uplink_problem(view(MAPPED), "a", "moon").endswith("'moon', only: other, public")
    assert ovs.uplink_problem(view(), "a", "moon").endswith("only: none")


@pytest.mark.parametrize(
    ("states", "expected"),
    [((), "down"), (("",), "off"), (("up",), "up"), (("down", "up"), "up"), (("down", "init"), "init")],
)
def test_the_best_tunnel_to_a_chassis_counts(states: tuple[str, ...], expected: str) -> None:
    tunnels = [
        port(f"t{n}", interface(f"t{n}", "geneve", bfd=state), ovn_chassis_id=f"b@x@10.0.0.{n}%10.1.1.1")
        for n, state in enumerate(states)
    ]
    other = port("o", interface("o", bfd="up"), ovn_chassis_id="b@10.0.0.9")
    found = view(integration=Bridge("br-int", {}, (*tunnels, other)))
    assert ovs.tunnel_bfd(found, "a", "b@x") == expected
    assert ovs.tunnel_bfd(found, "a", "b") == "up"


def test_chassis_whose_bfd_is_not_up_are_named_and_those_without_bfd_are_not() -> None:
    states = {"b": ("down",), "c": ("up",), "d": ("",), "e": ("down", "up"), "f": ("init", "down")}
    tunnels = [
        port(
            f"t{peer}{n}", interface(f"t{peer}{n}", "geneve", bfd=state), ovn_chassis_id=f"{peer}@10.0.0.{n}"
        )
        for peer, each in states.items()
        for n, state in enumerate(each)
    ]
    found = view(integration=Bridge("br-int", {}, (*tunnels, port("vm", interface("vm")))))
    assert ovs.dead_tunnels(found, "a") == {"b": "down", "f": "init"}
    assert ovs.dead_tunnels(view(), "a") == {}


def test_the_patch_port_is_the_provider_bridges_end() -> None:
    inner = Bridge("br-int", {}, (port("in", interface("in", "patch", ofport=9), ovn_localnet_port="ln"),))
    outer = Bridge("br-ex", {}, (port("out", interface("out", "patch", ofport=3), ovn_localnet_port="ln"),))
    bridge, patch = ovs.patch_port(view(a=inner, b=outer), "a", "ln")
    assert (bridge, patch.name, patch.ofport) == ("br-ex", "out", 3)
    young = Bridge("br-ex", {}, (port("out", interface("out", "patch", ofport=0), ovn_localnet_port="ln"),))
    for missing, words in ((view(a=inner), "no patch port"), (view(b=young), "no OpenFlow number yet")):
        with pytest.raises(LookupError, match=words):
            ovs.patch_port(missing, "a", "ln")


def test_an_empty_database_breaks_nothing() -> None:
    empty = LocalView()
    assert (ovs.system_id(empty), ovs.encap_ip(empty, "a"), ovs.tunnel_bfd(empty, "a", "b")) == (
        "",
        "",
        "down",
    )
    assert ovs.management_socket(Path("/run/x"), "br-ex") == Path("/run/x/br-ex.mgmt")


@pytest.mark.parametrize(
    ("counts", "expected"), [((), 0), (("0",), 0), (("1", "3"), 3), (("", "2"), 2), (("-1",), 0)]
)
def test_the_liveliest_tunnel_tells_whether_bfd_was_ever_up(counts: tuple[str, ...], expected: int) -> None:
    tunnels = [
        port(
            f"t{n}",
            replace(interface(f"t{n}", "geneve"), bfd={"flap_count": count} if count else {}),
            ovn_chassis_id=f"b@10.0.0.{n}",
        )
        for n, count in enumerate(counts)
    ]
    found = view(integration=Bridge("br-int", {}, tuple(tunnels)))
    assert ovs.tunnel_flaps(found, "a", "b") == expected
    assert ovs.tunnel_flaps(view(), "a", "b") == 0
