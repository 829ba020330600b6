"""Every kind of entry through two kernels' tables, with equal and with different zone numbers."""

from __future__ import annotations

import pytest

from ovnmig.conntrack import Applier, BadZone, decode, dump_zones, encode, entries, read_zone
from ovnmig.conntrack import attrs as a
from tests.netns import kernel as k
from tests.netns.conftest import Pair
from tests.netns.spaces import within

V4, V6 = 2, 10
ORIG, REPLY, MASTER = a.TUPLE_ORIG, a.TUPLE_REPLY, a.TUPLE_MASTER
VM, SERVER, VIP, BACKEND = "10.1.0.5", "172.16.1.50", "172.16.1.100", "10.9.9.9"
VM6, SERVER6, VIP6 = "fd00:10::5", "fd00:16::50", "fd00:16::100"


def _flow(
    proto: int, src: str = VM, dst: str = SERVER, sport: int = 40000, dport: int = 80
) -> tuple[bytes, bytes]:
    return (
        k.tuple_attr(ORIG, proto, src, dst, sport, dport),
        k.tuple_attr(REPLY, proto, dst, src, dport, sport),
    )


def _snat(proto: int, sport: int = 40000, port: int | None = 1024) -> tuple[bytes, ...]:
    return (*_flow(proto, sport=sport), k.nat_attr(a.NAT_SRC, VIP, port))


def _echo(proto: int, src: str, dst: str, number: int, types: tuple[int, int]) -> tuple[bytes, bytes]:
    return (
        k.tuple_attr(ORIG, proto, src, dst, number, icmp=(types[0], 0)),
        k.tuple_attr(REPLY, proto, dst, src, number, icmp=(types[1], 0)),
    )


TCP_STATES = range(1, 10)
KINDS: dict[str, tuple[int, int, tuple[bytes, ...]]] = {
    **{f"tcp state {s}": (V4, 0xE, (*_snat(6), k.tcp_info(s))) for s in TCP_STATES},
    "tcp unreplied": (V4, 0x8, (*_snat(6), k.tcp_info(1, (7, 0), (0x03, 0)))),
    "tcp replied, not assured": (V4, 0xA, (*_snat(6), k.tcp_info(2))),
    "tcp without nat": (V4, 0xE, (*_flow(6), k.tcp_info(3))),
    "tcp without window scaling": (V4, 0xE, (*_snat(6), k.tcp_info(3, (0, 0), (0, 0)))),
    "tcp largest window scale": (V4, 0xE, (*_snat(6), k.tcp_info(3, (14, 1)))),
    "tcp closing": (V4, 0xE, (*_snat(6), k.tcp_info(4, flags=(0x07, 0x03)))),
    "tcp v6 snat": (
        V6,
        0xE,
        (*_flow(6, VM6, SERVER6), k.nat_attr(a.NAT_SRC, VIP6, 2000), k.tcp_info(3)),
    ),
    "udp replied": (V4, 0xA, _snat(17)),
    "udp assured": (V4, 0xE, _snat(17)),
    "udp unreplied": (V4, 0x8, _snat(17)),
    "udp v6 without nat": (V6, 0xA, _flow(17, VM6, SERVER6)),
    "udplite": (V4, 0xA, _snat(136)),
    "icmp with another id": (V4, 0xA, (*_echo(1, VM, SERVER, 77, (8, 0)), k.nat_attr(a.NAT_SRC, VIP, 4242))),
    "icmp without nat": (V4, 0xA, _echo(1, VM, SERVER, 77, (8, 0))),
    "icmp timestamp": (V4, 0xA, _echo(1, VM, SERVER, 78, (13, 14))),
    "icmp dnat": (V4, 0xA, (*_echo(1, VM, SERVER, 79, (8, 0)), k.nat_attr(a.NAT_DST, BACKEND, 79))),
    "icmpv6 with another id": (
        V6,
        0xA,
        (*_echo(58, VM6, SERVER6, 77, (128, 129)), k.nat_attr(a.NAT_SRC, VIP6, 4242)),
    ),
    "sctp": (V4, 0xE, (*_snat(132), k.sctp_info(3, (0x11223344, 0x55667788)))),
    "sctp v6": (V6, 0xE, (*_flow(132, VM6, SERVER6), k.sctp_info(4, (1, 0xFFFFFFFF)))),
    "gre": (V4, 0xA, (*_flow(47, sport=0, dport=0), k.nat_attr(a.NAT_SRC, VIP, None))),
    "gre keys": (V4, 0xA, _flow(47, sport=1111, dport=2222)),
    "esp snat": (V4, 0xA, _snat(50, port=None)),
    "esp v6": (V6, 0xA, _flow(50, VM6, SERVER6)),
    "dnat": (V4, 0xE, (*_flow(6), k.nat_attr(a.NAT_DST, BACKEND, 8080), k.tcp_info(3))),
    "dnat and snat": (
        V4,
        0xE,
        (*_flow(6), k.nat_attr(a.NAT_DST, BACKEND, 8080), k.nat_attr(a.NAT_SRC, VIP, 3000), k.tcp_info(3)),
    ),
    "mark": (V4, 0xE, (*_snat(6), k.tcp_info(3), k.word(a.MARK, 0xDEADBEEF))),
    "fixed timeout": (V4, 0x40E, (*_snat(6), k.tcp_info(3))),
}


@pytest.mark.parametrize("zones", [(7, 7), (7, 4099)], ids=["equal zones", "other zone"])
@pytest.mark.parametrize("name", KINDS)
def test_an_entry_of_any_kind_arrives_unchanged(pair: Pair, name: str, zones: tuple[int, int]) -> None:
    family, status, parts = KINDS[name]
    assert k.create(pair.source, zones[0], family, *parts, status=status) == 0
    before = k.table(pair.source, zones[0])
    assert len(before) == 1

    batch = decode(encode(read_zone(pair.read, zones[0])))
    outcome = Applier(pair.write).apply(batch, zones[1])

    assert (outcome.created, outcome.total) == (1, 1)
    assert k.differences(before, k.table(pair.target, zones[1])) == []


@pytest.mark.parametrize("filtered", [True, False], ids=["kernel filter", "filter here"])
def test_only_the_zones_asked_for_are_read(pair: Pair, filtered: bool) -> None:
    for zone in (0, 99, 100, 101, 102):
        assert k.create(pair.source, zone, V4, *_snat(6), k.tcp_info(3)) == 0
    found = {zone: len(batch) for zone, batch in dump_zones(pair.read, [100, 102], kernel_filter=filtered)}
    assert found == {100: 1, 102: 1}


@pytest.mark.parametrize("zone", [0, -1, 65536])
def test_the_hosts_zone_is_neither_read_nor_written(pair: Pair, zone: int) -> None:
    with pytest.raises(BadZone):
        list(dump_zones(pair.read, [zone]))
    assert k.create(pair.source, 7, V4, *_snat(6), k.tcp_info(3)) == 0
    with pytest.raises(BadZone):
        Applier(pair.write).apply(read_zone(pair.read, 7), zone)
    assert k.table(pair.target, 0) == {}


def test_many_kinds_in_one_zone_arrive_together(pair: Pair) -> None:
    made = 0
    for number in range(300):
        for proto in (6, 17, 132, 136):
            parts = (*_flow(proto, sport=1000 + number), k.nat_attr(a.NAT_SRC, VIP, 20000 + number))
            info = {6: (k.tcp_info(1 + number % 9),), 132: (k.sctp_info(3, (number, 5)),)}.get(proto, ())
            mark = (k.word(a.MARK, number),) if number % 2 else ()
            status = (0x8, 0xA, 0xE)[number % 3]
            assert k.create(pair.source, 7, V4, *parts, *info, *mark, status=status) == 0
            made += 1
    before = k.table(pair.source, 7)
    outcome = Applier(pair.write).apply(decode(encode(read_zone(pair.read, 7))), 8)
    assert (outcome.created, outcome.total) == (made, made)
    assert k.differences(before, k.table(pair.target, 8)) == []


def test_a_label_of_128_bits_arrives_where_the_target_has_labels(pair: Pair) -> None:
    rules = "table inet t {\nchain c {\ntype filter hook input priority 0\nct label set 1\n}\n}\n"
    for name in (pair.source, pair.target):
        within(name, "nft", "-f", "-", text=rules)
    label = bytes(range(1, 17))
    assert k.create(pair.source, 7, V4, *_snat(6), k.tcp_info(3), a.attr(a.LABELS, label)) == 0
    before = k.table(pair.source, 7)
    assert next(iter(before.values()))[(a.LABELS,)] == label

    Applier(pair.write).apply(read_zone(pair.read, 7), 8)

    assert k.differences(before, k.table(pair.target, 8)) == []


def test_a_helper_with_sequence_adjustment_and_its_expected_data_connection_arrive(pair: Pair) -> None:
    adjust = [
        a.nest(kind, *(k.word(i, 10 * i) for i in (1, 2, 3))) for kind in (a.SEQ_ADJ_ORIG, a.SEQ_ADJ_REPLY)
    ]
    helper = a.nest(a.HELP, a.attr(a.HELP_NAME, b"ftp\0"))
    control = (*_flow(6, dport=21), k.nat_attr(a.NAT_SRC, VIP, 5000), k.tcp_info(3), helper, *adjust)
    assert k.create(pair.source, 7, V4, *control) == 0
    data = (*_flow(6, sport=50000, dport=33333), k.nat_attr(a.NAT_SRC, VIP, 5001), k.tcp_info(3))
    master = k.tuple_attr(MASTER, 6, VM, SERVER, 40000, 21)
    assert k.create(pair.source, 7, V4, *data, master) == 0
    before = k.table(pair.source, 7)
    assert sum((a.HELP, a.HELP_NAME) in entry for entry in before.values()) == 1
    assert sum((a.SEQ_ADJ_ORIG, 1) in entry for entry in before.values()) == 1

    batch = decode(encode(read_zone(pair.read, 7)))
    outcome = Applier(pair.write).apply(batch, 8)

    assert (outcome.created, outcome.total) == (2, 2)
    assert k.differences(before, k.table(pair.target, 8)) == []


def test_a_child_without_its_master_is_refused_and_named(pair: Pair) -> None:
    assert k.create(pair.source, 7, V4, *_flow(6, dport=21), k.tcp_info(3)) == 0
    master = k.tuple_attr(MASTER, 6, VM, SERVER, 40000, 21)
    assert k.create(pair.source, 7, V4, *_flow(6, sport=50000, dport=33333), k.tcp_info(3), master) == 0
    children = read_zone(pair.read, 7).masters_first()[1]
    assert len(children) == 1

    outcome = Applier(pair.write).apply(children, 8)

    assert outcome.refused == {"the master connection is not in the zone": 1}
    assert outcome.refusals[0].entry == f"tcp {VM}:50000 -> {SERVER}:33333 ESTABLISHED"


def test_a_dump_names_the_translation(pair: Pair) -> None:
    assert k.create(pair.source, 7, V4, *_snat(6), k.tcp_info(3)) == 0
    (group,) = read_zone(pair.read, 7)
    assert [str(entry) for entry in entries(group)] == [
        f"tcp {VM}:40000 -> {SERVER}:80 via {VIP}:1024 ESTABLISHED"
    ]
