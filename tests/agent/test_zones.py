from __future__ import annotations

import pytest

from ovnmig.agent import zones
from ovnmig.agent.localdb import LocalView
from ovnmig.core.transfer import ZoneKind, ZoneRef
from tests.agent.views import zones_view

UUID = "6f2b1c0e-7c1d-4b0e-9a53-2f6f3d7f9a10"
SNAT = ZoneRef(ZoneKind.SNAT, 'r "ü" 1.2', UUID)


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({'r "ü" 1.2_snat': "7"}, 7),
        ({f"{UUID}_snat": "8"}, 8),
        ({f"{UUID}_snat": "8", 'r "ü" 1.2_snat': "7"}, 8),
        ({'r "ü" 1.2_dnat': "7", 'r "ü" 1.2': "9"}, None),
        ({'r "ü" 1.2_snat': "0"}, None),
        ({'r "ü" 1.2_snat': "65536"}, None),
        ({'r "ü" 1.2_snat': "seven"}, None),
        ({}, None),
    ],
)
def test_a_router_zone_has_the_number_of_either_key_style(keys: dict[str, str], found: int | None) -> None:
    assert zones.number(zones_view(**keys), "a", SNAT) == found


def test_a_port_zone_is_called_like_the_port() -> None:
    port = ZoneRef(ZoneKind.PORT, "vm 1.two")
    assert zones.number(zones_view(**{"vm 1.two": "12"}), "a", port) == 12
    assert zones.present(zones_view(**{"vm 1.two": "12"}), "a", [port, SNAT]) == {port.key: 12}


def test_without_an_integration_bridge_there_are_no_zones() -> None:
    assert zones.number(LocalView(), "a", SNAT) is None
    assert zones.shared(LocalView(), "a", [SNAT]) == []


def test_a_number_with_another_user_is_named_and_the_zones_of_one_router_do_not_clash() -> None:
    both = {'r "ü" 1.2_snat': "7", 'r "ü" 1.2_dnat': "7", f"{UUID}_snat": "7"}
    assert zones.shared(zones_view(**both), "a", [SNAT]) == []
    found = zones.shared(zones_view(**both, other_snat="7", third="8"), "a", [SNAT])
    assert found == [f"zone 7 of {SNAT.key!r} is used by 'other_snat' too"]
