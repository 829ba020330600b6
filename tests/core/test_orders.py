from __future__ import annotations

import pytest

from ovnmig.core import legs, orders
from ovnmig.core.legs import Leg
from ovnmig.core.transfer import Peer
from tests.core import worlds
from tests.core.machine import a_record

SPEC = worlds.spec()


def test_a_transfer_order_names_the_peer_and_carries_the_epoch() -> None:
    plan = legs.plan(a_record(), Leg.GATEWAY, "ovnmig-blue", "dp")
    order = orders.transfer(plan, a_record(), SPEC, 12, "192.0.2.2", 8789)
    assert (order.id, order.udn, order.epoch) == ("m1", "blue", 12)
    assert order.peer == Peer("B", "192.0.2.2", 8789)
    assert order.zones == plan.zones
    assert (order.migration, order.keep) == ("m1", False)


@pytest.mark.parametrize("leg", list(Leg))
def test_only_the_gateways_own_leg_holds_back_new_connections(leg: Leg) -> None:
    plan = legs.plan(a_record(), leg, "ovnmig-blue", "dp")
    order = orders.transfer(plan, a_record(), SPEC, 12, "192.0.2.2", 8789)
    assert (order.gate is not None) is (leg is Leg.GATEWAY)
    if order.gate:
        announced = orders.announcement("m1", SPEC, 12)
        assert (order.gate.mac, order.gate.localnet_port) == (announced.mac, announced.localnet_port)


def test_readiness_asks_for_what_the_migration_needs() -> None:
    whole = orders.readiness(a_record(), SPEC, "dp")
    assert [zone.key for zone in whole.zones] == [
        f"snat:ovnmig-{SPEC.name}",
        f"dnat:ovnmig-{SPEC.name}",
        "port:vm1",
    ]
    assert whole.peers == ("A",)
    assert whole.physical_network == SPEC.physical_network
    pinned = orders.readiness(a_record(moves_gateway=False), SPEC, "dp")
    assert [zone.key for zone in pinned.zones] == ["port:vm1"]
    assert (pinned.peers, pinned.physical_network) == ((), "")
    unowned = orders.readiness(a_record(source="", port=None), SPEC, "dp")
    assert unowned.peers == ()
    assert len(unowned.zones) == 2


def test_an_announcement_names_every_vip_of_both_families_without_prefix() -> None:
    order = orders.announcement("m1", SPEC, 12, "m1")
    assert (order.migration, orders.announcement("keep", SPEC, 12).migration) == ("m1", "")
    assert order.addresses == tuple(str(vip.ip) for vip in SPEC.vips)
    assert order.chassis_redirect_port.startswith("cr-")
    assert (order.mac, order.vlan, order.epoch) == (SPEC.external_mac, SPEC.vlan, 12)
