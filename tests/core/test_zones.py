from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.core.conflicts import Findings
from ovnmig.core.udn import UdnSpec
from ovnmig.core.views import NbView, RouterView
from ovnmig.core.zones import DEFAULT_ZONES, NEVER, pick_zone, taken_zones
from tests.core.worlds import REQUEST, router, spec


def with_zone(name: str, zone: str) -> RouterView:
    return router(name, options={"snat-ct-zone": zone})


def pick(
    wish: int | str | None = None,
    *routers: RouterView,
    current: UdnSpec | None = None,
    zone_range: tuple[int, int] = DEFAULT_ZONES,
    name: str = "blue",
) -> tuple[int | None, list[str]]:
    found = Findings()
    request = replace(REQUEST, name=name, snat_zone=wish)
    zone = pick_zone(request, NbView(routers=routers), {"uuid-own"}, current, "house", zone_range, found)
    return zone, [problem.code for problem in found.problems]


@given(st.text(min_size=1))
def test_a_chosen_zone_is_in_the_range_and_never_a_reserved_one(name: str) -> None:
    zone, problems = pick(name=name)
    assert zone is not None
    assert DEFAULT_ZONES[0] <= zone <= DEFAULT_ZONES[1]
    assert not problems


def test_the_same_udn_gets_the_same_zone_and_others_mostly_another() -> None:
    assert pick() == pick()
    assert len({pick(name=f"u{i}")[0] for i in range(50)}) > 45


def test_a_zone_other_routers_ask_for_is_passed_over() -> None:
    first, _ = pick()
    second, _ = pick(None, with_zone("r", str(first)))
    assert second not in (None, first)
    assert pick(None, with_zone("own", str(first))) == (first, [])


def test_an_explicit_zone_must_be_free_and_in_the_range() -> None:
    assert pick(40000) == (40000, [])
    assert pick(40000, with_zone("r", "40000"))[1] == ["snat-zone-taken"]
    assert pick(40000, with_zone("own", "40000")) == (40000, [])


@pytest.mark.parametrize("zone", [0, 1, 32767, 64000, 64004, 65535, -1])
def test_zones_that_are_not_ours_to_take_are_refused(zone: int) -> None:
    assert pick(zone)[1] == ["bad-snat-zone"]


@pytest.mark.parametrize("zone", sorted(NEVER))
def test_reserved_zones_are_refused_whatever_the_range(zone: int) -> None:
    assert pick(zone, zone_range=(0, 65535))[1] == ["bad-snat-zone"]


def test_off_leaves_the_option_unset() -> None:
    assert pick("off") == (None, [])
    assert pick("of") == (None, ["bad-snat-zone"])


def test_a_change_keeps_the_zone_it_has() -> None:
    now = replace(spec(), snat_zone=50000)
    assert pick(current=now) == (50000, [])
    assert pick(40000, current=now) == (40000, [])
    assert pick(current=replace(now, snat_zone=None)) == (None, [])


def test_a_full_range_is_said_to_be_full() -> None:
    taken = (with_zone("r1", "64005"), with_zone("r2", "64006"))
    assert pick(None, *taken, zone_range=(64000, 64007)) == (64007, [])
    assert pick(None, *taken, zone_range=(64000, 64006)) == (None, ["snat-zones-exhausted"])


def test_options_that_are_no_number_take_nothing() -> None:
    nb = NbView(routers=(with_zone("a", "x"), with_zone("b", "\u0663"), with_zone("c", "7"), router("d")))
    assert taken_zones(nb, set()) == {7: "c"}
