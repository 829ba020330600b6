from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.core.document import KEPT_ENDED, DocumentError, UdnDocument, decode, encode
from ovnmig.core.migration import Binding, MigrationRecord, Phase, TransferMode, Trigger
from ovnmig.core.transfer import Counts
from ovnmig.core.udn import Member, UdnSpec
from tests.core.worlds import spec

COUNTS = st.dictionaries(st.text(max_size=8), st.integers(0), max_size=3)
MEMBERS = st.lists(st.builds(Member, st.integers(0, 32767), st.text(max_size=8)), max_size=4).map(tuple)
SUBNETS: st.SearchStrategy[IPv4Network | IPv6Network] = st.one_of(
    st.builds(lambda n: IPv4Network((n << 8, 24)), st.integers(0, 2**24 - 1)),
    st.builds(lambda n: IPv6Network((n << 64, 64)), st.integers(0, 2**64 - 1)),
)
SPECS: st.SearchStrategy[UdnSpec] = st.builds(
    lambda name, subnets, switch_uuid, vlan, port_range, zone: replace(
        spec(),
        name=name,
        subnets=tuple(subnets),
        gateway_addresses=tuple(ip_interface(f"{s.network_address}/{s.prefixlen}") for s in subnets),
        switch_uuid=switch_uuid,
        vlan=vlan,
        port_range=port_range,
        snat_zone=zone,
    ),
    st.text(),
    st.lists(SUBNETS, max_size=3),
    st.none() | st.text(),
    st.none() | st.integers(1, 4094),
    st.none() | st.tuples(st.integers(1, 65535), st.integers(1, 65535)),
    st.none() | st.integers(1, 65535),
)
RECORDS = st.builds(
    MigrationRecord,
    overlap_s=st.floats(allow_nan=False, allow_infinity=False),
    created_at=st.floats(allow_nan=False, allow_infinity=False),
    phase_since=st.floats(allow_nan=False, allow_infinity=False),
    switched_at=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ended_at=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    members_before=MEMBERS,
    counts=st.builds(Counts, refused=COUNTS, kinds=COUNTS),
    phase_times=st.lists(
        st.tuples(st.sampled_from(Phase), st.floats(allow_nan=False, allow_infinity=False)), max_size=3
    ).map(tuple),
)
DOCUMENTS = st.builds(
    UdnDocument, SPECS, MEMBERS, st.none() | RECORDS, st.lists(RECORDS, max_size=2).map(tuple)
)


def record(migration_id: str) -> MigrationRecord:
    return MigrationRecord(
        id=migration_id,
        udn="blue",
        target="b",
        source="a",
        port="vm1",
        port_source="a",
        moves_gateway=True,
        binding=Binding.EXTERNAL,
        trigger=Trigger.AUTO,
        transfer=TransferMode.FULL,
        overlap_s=60.0,
        phase=Phase.COPYING,
        created_at=1.0,
        phase_since=1.0,
    )


@given(DOCUMENTS)
def test_a_document_comes_back_exactly_as_it_was(document: UdnDocument) -> None:
    text = encode(document)
    assert text.isascii()
    assert decode(text) == document
    assert encode(decode(text)) == text


def test_fields_of_a_newer_version_are_ignored() -> None:
    plain = json.loads(encode(UdnDocument(spec(), ())))
    plain["document"]["spec"]["colour"] = "green"
    plain["note"] = 1
    assert decode(json.dumps(plain)) == UdnDocument(spec(), ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("[]", "not written by ovnmig"),
        ('{"version": "1"}', "not written by ovnmig"),
        ('{"version": 2}', "format 2, this ovnmig reads 1"),
        ('{"version": 1, "document": {}}', "damaged: UdnDocument.spec is missing"),
        ('{"version": 1}', "damaged"),
    ],
)
def test_a_document_that_cannot_be_used_says_why(text: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        decode(text)


def test_the_last_ended_migrations_are_kept_newest_first() -> None:
    document = UdnDocument(spec(), (), migration=record("7"))
    for i in range(KEPT_ENDED + 2):
        document = document.with_ended(record(str(i)))
    assert [ended.id for ended in document.ended] == ["6", "5", "4", "3", "2"]
    assert document.migration == record("7")
    closed = document.with_ended(record("7"))
    assert closed.migration is None
    assert closed.with_ended(replace(record("7"), reason="x")).ended[0].reason == "x"
    assert [ended.id for ended in closed.with_ended(record("7")).ended].count("7") == 1


def test_a_migration_is_found_in_flight_or_ended() -> None:
    document = UdnDocument(spec(), (), migration=record("1"), ended=(record("2"),))
    assert document.find_migration("1") == record("1")
    assert document.find_migration("2") == record("2")
    assert document.find_migration("3") is None
    assert replace(document, migration=None).find_migration("1") is None
