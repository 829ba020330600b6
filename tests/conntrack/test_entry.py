"""Entries as people read them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from ovnmig.conntrack.entry import describe_message
from tests.conntrack.generate import Dumped, Side

_V4 = [ip_address(text).packed for text in ("10.1.0.5", "172.16.1.50", "172.16.1.100", "10.9.9.9")]
_V6 = [ip_address(text).packed for text in ("fd00:10::5", "fd00:16::50", "fd00:16::100")]


def _text(orig: Side, reply: Side, status: int, tcp: tuple[int, int, int, int, int] | None = None) -> str:
    raw = Dumped(7, status, orig, reply, 30, tcp, None, 0, b"", "", None).message()
    return str(describe_message(raw))


@pytest.mark.parametrize(("state", "name"), [(3, "ESTABLISHED"), (1, "SYN_SENT"), (7, "TIME_WAIT")])
def test_a_translated_tcp_session_says_where_it_leaves(state: int, name: str) -> None:
    vm, server, vip, _ = _V4
    text = _text(Side(vm, server, 6, 40000, 80), Side(server, vip, 6, 80, 1024), 0x1E, (state, 7, 7, 3, 3))
    assert text == f"tcp 10.1.0.5:40000 -> 172.16.1.50:80 via 172.16.1.100:1024 {name}"


def test_a_redirected_session_says_where_to() -> None:
    vm, server, _, backend = _V4
    text = _text(Side(vm, server, 17, 40000, 80), Side(backend, vm, 17, 8080, 40000), 0x2A)
    assert text == "udp 10.1.0.5:40000 -> 172.16.1.50:80 to 10.9.9.9:8080"


def test_ipv6_ports_stand_behind_brackets() -> None:
    vm, server, vip = _V6
    text = _text(Side(vm, server, 17, 1, 2), Side(server, vip, 17, 2, 3), 0x1A)
    assert text == "udp [fd00:10::5]:1 -> [fd00:16::50]:2 via [fd00:16::100]:3"


def test_a_protocol_without_ports_shows_addresses_only() -> None:
    vm, server, _, _ = _V4
    assert _text(Side(vm, server, 50), Side(server, vm, 50), 0xA) == "proto-50 10.1.0.5 -> 172.16.1.50"


def test_an_entry_that_cannot_move_has_no_description() -> None:
    vm, server, _, _ = _V4
    orig, reply = Side(vm, server, 1, 1, 0, (3, 0)), Side(server, vm, 1, 1, 0, (3, 0))
    assert describe_message(Dumped(7, 8, orig, reply, 30, None, None, 0, b"", "", None).message()) is None
