"""Every field of a create message, against the dumped entry it was made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.conntrack import attrs as a
from ovnmig.conntrack import messages as m
from ovnmig.conntrack.attrs import MalformedAttributes
from ovnmig.conntrack.records import Group, merge
from ovnmig.conntrack.transform import Transformer
from tests.conntrack.chunks import chunk_of
from tests.conntrack.generate import Dumped, Side, dumped

Fields = dict[a.Path, bytes]
_NAT_NESTING = {**a.NESTING, a.NAT_SRC: {a.NAT_PROTO: {}}, a.NAT_DST: {a.NAT_PROTO: {}}}


def _fields(raw: bytes) -> Fields:
    return {p: raw[o : o + n] for p, o, n in a.leaves(raw, m.HEADER_LEN, len(raw), _NAT_NESTING)}


def _group(entry: Dumped) -> Group:
    read = Transformer().read(chunk_of([entry.message()]))
    (group,) = read.zones[entry.zone]
    assert not read.skipped
    return group


def _created(entry: Dumped, zone: int = 4099) -> bytes:
    group = _group(entry)
    return group.shape.create.build(group.values, zone, 0x605, 77).tobytes()


def _tuple(fields: Fields, kind: int) -> Fields:
    return {path[1:]: value for path, value in fields.items() if path[0] == kind}


def _side(side: Side) -> Fields:
    raw = m.message(0, 0, 0, 0, side.attr(a.TUPLE_ORIG))
    return _tuple(_fields(raw), a.TUPLE_ORIG)


def _inverse(entry: Dumped) -> Side:
    o, r = entry.orig, entry.reply
    if o.proto in (1, 58):
        return Side(o.dst, o.src, o.proto, o.sport, 0, r.icmp)
    return Side(o.dst, o.src, o.proto, o.dport, o.sport)


@given(dumped())
def test_the_original_tuple_is_kept_and_the_reply_is_its_plain_inverse(entry: Dumped) -> None:
    fields = _fields(_created(entry))
    assert _tuple(fields, a.TUPLE_ORIG) == _side(entry.orig)
    assert _tuple(fields, a.TUPLE_REPLY) == _side(_inverse(entry))


@given(dumped())
def test_the_translation_is_one_exact_address_and_port(entry: Dumped) -> None:
    fields = _fields(_created(entry))
    ports = entry.orig.proto in m.PORT_PROTOCOLS
    icmp = entry.orig.proto in (1, 58)
    # A redirected entry's unchanged source is written out too.
    written = entry.status | (m.Status.SRC_NAT if entry.status & m.Status.DST_NAT else 0)
    for bit, kind, address, port in (
        (m.Status.SRC_NAT, a.NAT_SRC, entry.reply.dst, entry.reply.dport),
        (m.Status.DST_NAT, a.NAT_DST, entry.reply.src, entry.reply.sport),
    ):
        nat = _tuple(fields, kind)
        if not written & bit:
            assert nat == {}
            continue
        low, high = (
            (a.NAT_V6_MINIP, a.NAT_V6_MAXIP) if len(address) == 16 else (a.NAT_V4_MINIP, a.NAT_V4_MAXIP)
        )
        assert (nat.pop((low,)), nat.pop((high,))) == (address, address)
        if ports or icmp:
            wire = (entry.reply.sport if icmp else port).to_bytes(2, "big")
            assert nat.pop((a.NAT_PROTO, a.PROTONAT_PORT_MIN)) == wire
            assert nat.pop((a.NAT_PROTO, a.PROTONAT_PORT_MAX)) == wire
        assert nat == {}


@given(dumped())
def test_status_is_confirmed_keeps_what_counts_and_drops_what_the_kernel_refuses(entry: Dumped) -> None:
    status = m.Status(int.from_bytes(_fields(_created(entry))[(a.STATUS,)], "big"))
    assert m.Status.CONFIRMED in status
    assert not status & (m.Status.EXPECTED | m.Status.DYING | m.Status.OFFLOAD | m.Status.HW_OFFLOAD)
    kept = m.Status.SEEN_REPLY | m.Status.ASSURED | m.Status.SRC_NAT | m.Status.DST_NAT
    assert status & kept == entry.status & kept


@given(dumped())
def test_tcp_flags_are_liberal_masked_and_without_the_acknowledgement_bound(entry: Dumped) -> None:
    fields = _fields(_created(entry))
    base = (a.PROTOINFO, a.PROTOINFO_TCP)
    if entry.tcp is None:
        assert not any(path[:2] == base for path in fields)
        return
    state, left, right, *flags = entry.tcp if entry.timeout_s is not None else (3, 0, 0, 0, 0)
    assert fields[(*base, a.TCP_STATE)] == bytes((state,))
    assert fields[(*base, a.TCP_WSCALE_ORIG)] == bytes((left,))
    assert fields[(*base, a.TCP_WSCALE_REPLY)] == bytes((right,))
    for kind, flag in zip((a.TCP_FLAGS_ORIG, a.TCP_FLAGS_REPLY), flags, strict=True):
        assert fields[(*base, kind)] == bytes(((flag & 0x0F) | 0x08, 0x0F))


@given(dumped())
def test_timeout_mark_labels_helper_master_and_vtags_are_kept(entry: Dumped) -> None:
    fields = _fields(_created(entry))
    timeout_s = int.from_bytes(fields[(a.TIMEOUT,)], "big")
    assert timeout_s == (300 if entry.timeout_s is None else max(entry.timeout_s, 1))
    assert fields[(a.MARK,)] == entry.mark.to_bytes(4, "big")
    assert fields.get((a.LABELS,), b"") == entry.labels
    assert fields.get((a.HELP, a.HELP_NAME), b"\0") == entry.helper.encode() + b"\0"
    assert _tuple(fields, a.TUPLE_MASTER) == ({} if entry.master is None else _side(entry.master))
    if entry.sctp is not None:
        base = (a.PROTOINFO, a.PROTOINFO_SCTP)
        assert fields[(*base, a.SCTP_STATE)] == bytes((entry.sctp[0],))
        tags = b"".join(fields[(*base, kind)] for kind in (a.SCTP_VTAG_ORIG, a.SCTP_VTAG_REPLY))
        assert tags == b"".join(tag.to_bytes(4, "big") for tag in entry.sctp[1:])


@given(dumped(), st.integers(1, 0xFFFF))
def test_zone_and_header_are_the_callers(entry: Dumped, zone: int) -> None:
    raw = _created(entry, zone)
    assert _fields(raw)[(a.ZONE,)] == zone.to_bytes(2, "big")
    family = m.AF_INET6 if len(entry.orig.src) == 16 else m.AF_INET
    assert raw[: m.HEADER_LEN] == m.header(m.CT_NEW, 0x605, 77, family, len(raw) - m.HEADER_LEN)


@given(st.lists(dumped(), min_size=1, max_size=12))
def test_messages_of_mixed_forms_are_read_as_if_each_were_alone(entries: list[Dumped]) -> None:
    whole = Transformer().read(chunk_of([entry.message() for entry in entries]))
    for zone in {entry.zone for entry in entries}:
        alone = sorted(_group(entry).prints()[0] for entry in entries if entry.zone == zone)
        assert sorted(whole.batch(zone).prints()) == alone
        orders = sorted(int(place) for group in whole.zones[zone] for place in group.order)
        assert orders == [number for number, entry in enumerate(entries) if entry.zone == zone]


@given(dumped())
def test_updates_carry_no_translation_helper_or_master(entry: Dumped) -> None:
    group = _group(entry)
    for program, status in ((group.shape.update, True), (group.shape.update_without_status, False)):
        kinds = {path[0] for path in _fields(program.build(group.values, 1, 0, 0).tobytes())}
        assert not kinds & {a.NAT_SRC, a.NAT_DST, a.HELP, a.TUPLE_MASTER}
        assert (a.STATUS in kinds) == status


@given(dumped())
def test_asking_by_reply_uses_the_translated_tuple(entry: Dumped) -> None:
    group = _group(entry)
    fields = _fields(group.shape.get_by_reply.build(group.values, 1, 0, 0).tobytes())
    assert _tuple(fields, a.TUPLE_REPLY) == _side(entry.reply)


@given(dumped(), dumped())
def test_keys_are_equal_exactly_when_the_original_tuples_are(one: Dumped, other: Dumped) -> None:
    same = one.orig == other.orig
    assert (_group(one).keys()[0] == _group(other).keys()[0]) == same


def test_the_host_zone_and_zones_not_asked_for_are_passed_over() -> None:
    side = Side(bytes(4), bytes(4), 17)

    def entry(zone: int) -> bytes:
        return Dumped(zone, 8, side, side, 30, None, None, 0, b"", "", None).message()

    read = Transformer().read(chunk_of([entry(0), entry(5), entry(6)]), frozenset({6}))
    assert list(read.zones) == [6]
    assert list(Transformer().read(chunk_of([entry(0)])).zones) == []


def test_what_cannot_move_is_counted_by_reason() -> None:
    side = Side(bytes(4), bytes(4), 1, 1, 0, (3, 0))
    entry = Dumped(5, 8, side, side, 30, None, None, 0, b"", "", None)
    read = Transformer().read(chunk_of([entry.message()] * 3))
    assert (dict(read.skipped), read.zones) == ({"ICMP type 3 has no answer and so no session": 3}, {})


def test_a_message_cut_short_is_an_error_not_an_entry() -> None:
    side = Side(bytes(4), bytes(4), 17)
    raw = bytearray(Dumped(5, 8, side, side, 30, None, None, 0, b"", "", None).message())
    raw[20] = 200
    with pytest.raises(MalformedAttributes):
        Transformer().read(chunk_of([bytes(raw)]))


def test_merging_gives_one_table_per_shape() -> None:
    side = Side(bytes(4), bytes(4), 17)
    raw = Dumped(5, 8, side, side, 30, None, None, 0, b"", "", None).message()
    batch = Transformer().read(chunk_of([raw])).batch(5)
    merged = merge([batch, batch])
    assert (len(merged.groups), len(merged)) == (1, 2)
