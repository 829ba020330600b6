from __future__ import annotations

import pytest

from ovnmig.agent.roles import Roles
from ovnmig.agent.store import Fence


def test_a_standby_takes_a_stream_of_the_epoch_of_its_orders() -> None:
    orders = Fence()
    orders.pass_through("blue", 5, "an order")
    roles = Roles(orders)
    assert roles.objection("blue", 5) == ""
    assert roles.objection("red", 1) == ""


def test_an_owner_takes_no_standing_stream_whatever_its_epoch() -> None:
    roles = Roles(Fence())
    roles.watch(lambda udn: udn == "blue")
    assert roles.objection("blue", 9) == "owns the gateway of UDN 'blue' itself"
    assert roles.objection("red", 9) == ""


def test_a_stream_older_than_the_last_order_is_not_taken() -> None:
    orders = Fence()
    orders.pass_through("blue", 6, "an order")
    assert "has an order of epoch 6" in Roles(orders).objection("blue", 5)


@pytest.mark.parametrize(("seen", "sure"), [(None, False), (True, False), (False, True)])
def test_only_flows_that_were_seen_tell_that_the_gateway_is_elsewhere(seen: bool | None, sure: bool) -> None:
    roles = Roles(Fence())
    roles.watch(lambda _: seen)
    assert roles.surely_elsewhere("blue") is sure


@pytest.mark.parametrize(("seen", "here"), [(None, False), (True, True), (False, False)])
def test_only_flows_that_were_seen_tell_that_the_gateway_is_here(seen: bool | None, here: bool) -> None:
    roles = Roles(Fence())
    roles.watch(lambda _: seen)
    assert roles.owner("blue") is here
