"""Generated entries of every kind through two kernels: nothing that can be kept changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ovnmig.conntrack import Applier, NetlinkSocket, decode, encode, read_zone
from ovnmig.conntrack import attrs as a
from ovnmig.conntrack import messages as m
from tests.conntrack.generate import Dumped, Side, dumped
from tests.netns import kernel as k
from tests.netns.conftest import Pair
from tests.netns.spaces import inside, namespaces

_ZONES = itertools.count(1, 2)
_REFUSED_BY_THE_KERNEL = {16, 17, 22}
"""EBUSY, EEXIST and EINVAL: generated entries that no kernel holds, e.g. two on one address and port."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Pair]:
    """One pair for all examples; each has zones of its own."""
    with (
        namespaces("a", "b") as (source, target),
        inside(source, NetlinkSocket) as read,
        inside(target, NetlinkSocket) as write,
    ):
        yield Pair(source, target, read, write)


def _create(name: str, zone: int, entry: Dumped) -> int:
    o, r = entry.orig, entry.reply
    icmp = o.proto in (m.IPPROTO_ICMP, m.IPPROTO_ICMPV6)
    inverse = (
        Side(o.dst, o.src, o.proto, o.sport, 0, r.icmp)
        if icmp
        else Side(o.dst, o.src, o.proto, o.dport, o.sport)
    )
    parts = [o.attr(a.TUPLE_ORIG), inverse.attr(a.TUPLE_REPLY), k.word(a.MARK, entry.mark)]
    for bit, kind, address, port in (
        (m.Status.SRC_NAT, a.NAT_SRC, r.dst, r.dport),
        (m.Status.DST_NAT, a.NAT_DST, r.src, r.sport),
    ):
        if entry.status & bit:
            with_port = icmp or o.proto in m.PORT_PROTOCOLS
            parts.append(k.nat_attr(kind, _text(address), (r.sport if icmp else port) if with_port else None))
    if entry.tcp is not None:
        state, left, right, *flags = entry.tcp
        parts.append(k.tcp_info(state, (left, right), (flags[0], flags[1])))
    if entry.sctp is not None:
        parts.append(k.sctp_info(entry.sctp[0], entry.sctp[1:]))
    status = entry.status & (m.Status.SEEN_REPLY | m.Status.ASSURED) | m.Status.CONFIRMED
    family = m.AF_INET6 if len(o.src) == 16 else m.AF_INET
    return k.create(
        name, zone, family, *parts, status=status, timeout_s=1000 + (entry.timeout_s or 0) % 100_000
    )


def _text(address: bytes) -> str:
    return str(ip_address(address))


@settings(max_examples=60)
@given(entries=st.lists(dumped(), min_size=1, max_size=8))
def test_generated_entries_arrive_unchanged(nodes: Pair, entries: list[Dumped]) -> None:
    zone = next(_ZONES)
    for entry in entries:
        assert _create(nodes.source, zone, entry) in {0, *_REFUSED_BY_THE_KERNEL}
    before = k.table(nodes.source, zone)
    outcome = Applier(nodes.write).apply(decode(encode(read_zone(nodes.read, zone))), zone + 1)
    assert (outcome.created, outcome.total) == (len(before), len(before)), outcome.refusals
    assert k.differences(before, k.table(nodes.target, zone + 1)) == []


def test_most_generated_entries_are_ones_a_kernel_holds(nodes: Pair) -> None:
    zone = next(_ZONES)
    results: list[int] = []

    @settings(max_examples=60, database=None)
    @given(dumped())
    def collect(entry: Dumped) -> None:
        results.append(_create(nodes.source, zone, entry))

    collect()
    assert results.count(0) > len(results) // 3
