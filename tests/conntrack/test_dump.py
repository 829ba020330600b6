"""Which kernels filter a dump by zone, and which zones may be asked for."""

from __future__ import annotations

import pytest

from ovnmig.conntrack.dump import BadZone, check_zones, kernel_filters_zones


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("6.8.0-31-generic", True),
        ("6.18.44", True),
        ("7.0", True),
        ("6.7.12", False),
        ("5.14.0-427.el9", False),
        ("x", False),
    ],
)
def test_kernels_from_6_8_on_filter_by_zone(release: str, expected: bool) -> None:
    assert kernel_filters_zones(release) is expected


@pytest.mark.parametrize("zone", [0, -1, 65536])
def test_the_hosts_zone_and_impossible_numbers_are_refused(zone: int) -> None:
    with pytest.raises(BadZone, match=str(zone)):
        check_zones([5, zone])


def test_repeated_zones_count_once() -> None:
    assert check_zones([5, 5, 65535]) == {5, 65535}
