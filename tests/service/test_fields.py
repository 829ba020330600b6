from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.service.fields import (
    check_text,
    check_udn_name,
    parse_address,
    parse_interface,
    parse_network,
    parse_port_range,
    parse_snat_zone,
    write_port_range,
)


@given(st.ip_addresses(), st.integers(0, 32))
def test_every_network_comes_back_as_it_was_written(address: Any, length: int) -> None:
    network = ip_network(f"{address}/{length}", strict=False)
    assert parse_network(str(network)) == network
    assert parse_interface(f"{address}/{length}") == ip_interface(f"{address}/{length}")
    assert parse_address(str(address)) == address


def test_host_bits_are_refused_with_the_network_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"write 'fd00::/64'"):
        parse_network("fd00::5/64")


@pytest.mark.parametrize(
    ("parse", "value"),
    [
        (parse_network, "10.0.0.0"),
        (parse_network, "10.0.0.0/33"),
        (parse_network, 167772160),
        (parse_interface, "10.0.0.1"),
        (parse_interface, "fe80::1%eth0/64"),
        (parse_interface, None),
        (parse_address, "10.0.0.1/24"),
        (parse_address, "010.0.0.1"),
        (parse_address, ""),
        (parse_port_range, "80"),
        (parse_port_range, "0-80"),
        (parse_port_range, "80-65536"),
        (parse_port_range, "9-8"),
        (parse_port_range, f"1-{'9' * 5000}"),
        (parse_network, "10.0.0.0/24" + " " * 200),
        (parse_interface, "1" * 200),
        (parse_address, "1" * 200),
        (parse_port_range, "-8"),
        (parse_port_range, "٣-٤"),
        (parse_snat_zone, 0),
        (parse_snat_zone, 65536),
        (parse_snat_zone, True),
        (parse_snat_zone, "OFF"),
        (parse_snat_zone, 1.0),
    ],
)
def test_wrong_values_are_refused(parse: Callable[[object], object], value: object) -> None:
    with pytest.raises(ValueError, match=r"write|prefix|scope|ports go"):
        parse(value)


def test_port_ranges_and_zones() -> None:
    assert parse_port_range(" 1-65535 ") == (1, 65535)
    assert write_port_range((7, 7)) == "7-7"
    assert write_port_range(None) is None
    assert parse_snat_zone("off") == "off"
    assert parse_snat_zone(40000) == 40000
    assert parse_address("::ffff:1.2.3.4") == ip_address("::ffff:1.2.3.4")


@given(st.text(min_size=1).filter(lambda t: "/" not in t and t not in (".", "..")))
def test_a_name_is_kept_exactly_or_refused_for_control_characters_or_blanks(name: str) -> None:
    try:
        assert check_udn_name(name) == name
    except ValueError:
        with pytest.raises(ValueError, match=r"control characters|blanks only"):
            check_text(name)
