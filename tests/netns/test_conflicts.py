"""What the target already holds, and what becomes of a record that meets it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ovnmig.conntrack import Applier, Batch, Group, delete_keys, delete_records, read_zone
from ovnmig.conntrack import attrs as a
from ovnmig.conntrack.shape import shape_of
from tests.netns import kernel as k
from tests.netns.conftest import Pair
from tests.netns.spaces import within

V4 = 2
VM, OTHER, SERVER, VIP = "10.1.0.5", "10.1.0.6", "172.16.1.50", "172.16.1.100"
ENTRY = f"tcp {VM}:40000 -> {SERVER}:80 via {VIP}:1024 ESTABLISHED"
ASSURED, REPLIED, UNREPLIED = 0xE, 0xA, 0x8


def _tuples(src: str, sport: int) -> tuple[bytes, bytes]:
    return (
        k.tuple_attr(a.TUPLE_ORIG, 6, src, SERVER, sport, 80),
        k.tuple_attr(a.TUPLE_REPLY, 6, SERVER, src, 80, sport),
    )


def _session(
    name: str,
    zone: int,
    src: str = VM,
    sport: int = 40000,
    port: int | None = 1024,
    status: int = ASSURED,
    state: int = 3,
    timeout_s: int = 500,
    mark: int = 0,
) -> None:
    nat = (k.nat_attr(a.NAT_SRC, VIP, port),) if port else ()
    parts = (*_tuples(src, sport), *nat, k.tcp_info(state), k.word(a.MARK, mark))
    assert k.create(name, zone, V4, *parts, status=status, timeout_s=timeout_s) == 0


@pytest.fixture
def sent(pair: Pair) -> Batch:
    """One established, translated session on the source."""
    _session(pair.source, 7, mark=5)
    return read_zone(pair.read, 7)


def test_an_identical_entry_is_a_success_and_takes_over_state_and_mark(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9, state=2, status=REPLIED, timeout_s=20)
    outcome = Applier(pair.write).apply(sent, 9)
    assert (outcome.identical, outcome.total) == (1, 1)
    assert k.differences(k.table(pair.source, 7), k.table(pair.target, 9)) == []


def test_without_update_an_identical_entry_stays_as_it_is(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9, state=4, timeout_s=20)
    before = k.table(pair.target, 9)
    outcome = Applier(pair.write).apply(sent, 9, update=False)
    assert (outcome.identical, outcome.total) == (1, 1)
    assert k.differences(before, k.table(pair.target, 9), moved=False) == []


def test_an_update_never_takes_seen_reply_or_assured_from_a_live_entry(pair: Pair) -> None:
    _session(pair.source, 7, status=UNREPLIED, state=1, mark=6)
    _session(pair.target, 9, status=ASSURED)
    orig = _tuples(VM, 40000)[0]
    applier = Applier(pair.write)
    for write in (applier.apply, applier.refresh):
        assert k.set_mark(pair.target, 9, V4, orig, 77) == 0
        outcome = write(read_zone(pair.read, 7), 9)
        assert (outcome.identical, outcome.total) == (1, 1)
        (entry,) = k.table(pair.target, 9).values()
        assert int.from_bytes(entry[(a.STATUS,)], "big") & ASSURED == ASSURED
        # The rest of the update arrived: the kernel did not refuse it for its status.
        assert entry[(a.MARK,)] == (6).to_bytes(4, "big")


def test_an_update_never_takes_the_acknowledgement_bound_from_a_live_entry(pair: Pair, sent: Batch) -> None:
    live = (*_tuples(VM, 40000), k.nat_attr(a.NAT_SRC, VIP, 1024), k.tcp_info(3, flags=(0x23, 0x23)))
    assert k.create(pair.target, 9, V4, *live) == 0
    assert Applier(pair.write).apply(sent, 9).identical == 1
    (entry,) = k.table(pair.target, 9).values()
    for path in (a.TCP_FLAGS_ORIG, a.TCP_FLAGS_REPLY):
        assert entry[(a.PROTOINFO, a.PROTOINFO_TCP, path)][0] == 0x2B


def test_no_acknowledgement_bound_is_carried_to_a_new_entry(pair: Pair) -> None:
    live = (*_tuples(VM, 40000), k.nat_attr(a.NAT_SRC, VIP, 1024), k.tcp_info(3, flags=(0x33, 0x33)))
    assert k.create(pair.source, 7, V4, *live) == 0
    assert Applier(pair.write).apply(read_zone(pair.read, 7), 9).created == 1
    (entry,) = k.table(pair.target, 9).values()
    assert entry[(a.PROTOINFO, a.PROTOINFO_TCP, a.TCP_FLAGS_ORIG)][0] == 0x0B


@pytest.mark.parametrize("status", [UNREPLIED, REPLIED])
def test_a_mid_stream_artefact_of_the_same_session_gives_way(pair: Pair, sent: Batch, status: int) -> None:
    _session(pair.target, 9, port=55555, status=status, timeout_s=300)
    outcome = Applier(pair.write).apply(sent, 9)
    assert (outcome.replaced, outcome.total) == (1, 1)
    assert k.differences(k.table(pair.source, 7), k.table(pair.target, 9)) == []


def test_an_untranslated_artefact_gives_way_too(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9, port=None, status=UNREPLIED)
    assert Applier(pair.write).apply(sent, 9).replaced == 1
    assert k.differences(k.table(pair.source, 7), k.table(pair.target, 9)) == []


def test_a_reversed_artefact_of_a_server_push_gives_way(pair: Pair, sent: Batch) -> None:
    reversed_ = (
        k.tuple_attr(a.TUPLE_ORIG, 6, SERVER, VIP, 80, 1024),
        k.tuple_attr(a.TUPLE_REPLY, 6, VIP, SERVER, 1024, 80),
    )
    assert k.create(pair.target, 9, V4, *reversed_, k.tcp_info(3), status=UNREPLIED) == 0
    outcome = Applier(pair.write).apply(sent, 9)
    assert (outcome.replaced, outcome.total) == (1, 1)
    assert k.differences(k.table(pair.source, 7), k.table(pair.target, 9)) == []


SERVICE, BACKEND = "10.96.0.1", "10.1.0.9"
REDIRECTED = (
    k.tuple_attr(a.TUPLE_ORIG, 6, VM, SERVICE, 40000, 80),
    k.tuple_attr(a.TUPLE_REPLY, 6, SERVICE, VM, 80, 40000),
    k.nat_attr(a.NAT_DST, BACKEND, 8080),
    k.tcp_info(3),
)
"""A session through a load balancer: only its destination is translated."""


def test_an_artefact_of_a_redirected_session_gives_way_and_the_port_stays(pair: Pair) -> None:
    assert k.create(pair.source, 7, V4, *REDIRECTED) == 0
    of_a_reply = (
        k.tuple_attr(a.TUPLE_ORIG, 6, BACKEND, VM, 8080, 40000),
        k.tuple_attr(a.TUPLE_REPLY, 6, VM, BACKEND, 40000, 8080),
    )
    assert k.create(pair.target, 9, V4, *of_a_reply, k.tcp_info(3), status=UNREPLIED) == 0
    outcome = Applier(pair.write).apply(read_zone(pair.read, 7), 9)
    assert (outcome.replaced, outcome.total) == (1, 1)
    assert k.differences(k.table(pair.source, 7), k.table(pair.target, 9)) == []


def test_a_live_session_on_a_redirected_ones_ports_keeps_them(pair: Pair) -> None:
    assert k.create(pair.source, 7, V4, *REDIRECTED) == 0
    direct = (
        k.tuple_attr(a.TUPLE_ORIG, 6, VM, BACKEND, 40000, 8080),
        k.tuple_attr(a.TUPLE_REPLY, 6, BACKEND, VM, 8080, 40000),
    )
    assert k.create(pair.target, 9, V4, *direct, k.tcp_info(3)) == 0
    before = k.table(pair.target, 9)
    outcome = Applier(pair.write).apply(read_zone(pair.read, 7), 9)
    assert outcome.refused == {"another session holds the address and port": 1}
    assert outcome.refusals[0].entry == f"tcp {VM}:40000 -> {SERVICE}:80 to {BACKEND}:8080 ESTABLISHED"
    assert k.differences(before, k.table(pair.target, 9), moved=False) == []


def test_a_live_session_with_another_translation_is_refused_and_named(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9, port=55555)
    before = k.table(pair.target, 9)
    outcome = Applier(pair.write).apply(sent, 9)
    assert outcome.refused == {"the session lives here with another translation": 1}
    assert outcome.refusals[0].entry == ENTRY
    assert outcome.refusals[0].holder == ENTRY.replace("1024", "55555")
    assert outcome.not_applied == sent.keys().tolist()
    assert k.differences(before, k.table(pair.target, 9), moved=False) == []


@pytest.mark.parametrize("state", [7, 8], ids=["TIME_WAIT", "CLOSE"])
def test_what_is_left_of_an_ended_session_gives_way(pair: Pair, sent: Batch, state: int) -> None:
    _session(pair.target, 9, port=55555, state=state)
    outcome = Applier(pair.write).apply(sent, 9)
    assert (outcome.replaced, outcome.total) == (1, 1)
    assert k.differences(k.table(pair.source, 7), k.table(pair.target, 9)) == []


def test_a_label_the_target_cannot_hold_does_not_keep_the_rest_from_arriving(pair: Pair) -> None:
    rules = "table inet t {\nchain c {\ntype filter hook input priority 0\nct label set 1\n}\n}\n"
    within(pair.source, "nft", "-f", "-", text=rules)
    parts = (
        *_tuples(VM, 40000),
        k.nat_attr(a.NAT_SRC, VIP, 1024),
        k.tcp_info(3),
        a.attr(a.LABELS, b"\1" * 16),
    )
    assert k.create(pair.source, 7, V4, *parts) == 0
    labelled = read_zone(pair.read, 7)
    applier = Applier(pair.write)
    assert applier.apply(labelled, 9).created == 1
    assert k.set_mark(pair.target, 9, V4, parts[0], 77) == 0
    for outcome in (applier.apply(labelled, 9), applier.refresh(labelled, 9)):
        assert (outcome.identical, outcome.total) == (1, 1)
    (entry,) = k.table(pair.target, 9).values()
    assert (entry[(a.MARK,)], (a.LABELS,) in entry) == (bytes(4), False)


def test_our_own_older_copy_gives_way_to_a_session_reborn_with_its_tuple(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9, port=55555)
    outcome = Applier(pair.write).apply(sent, 9, owned=sent.keys())
    assert (outcome.replaced, outcome.total) == (1, 1)
    assert k.differences(k.table(pair.source, 7), k.table(pair.target, 9)) == []


@pytest.mark.parametrize("status", [ASSURED, UNREPLIED])
def test_another_session_on_the_address_and_port_keeps_it(pair: Pair, sent: Batch, status: int) -> None:
    _session(pair.target, 9, src=OTHER, sport=1111, status=status)
    before = k.table(pair.target, 9)
    outcome = Applier(pair.write).apply(sent, 9)
    assert outcome.refused == {"another session holds the address and port": 1}
    assert outcome.refusals[0].entry == ENTRY
    assert outcome.refusals[0].holder == f"tcp {OTHER}:1111 -> {SERVER}:80 via {VIP}:1024 ESTABLISHED"
    assert k.differences(before, k.table(pair.target, 9), moved=False) == []


def test_the_same_session_in_another_zone_is_nobodys_business(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 10, port=55555)
    before = k.table(pair.target, 10)
    assert Applier(pair.write).apply(sent, 9).created == 1
    assert k.differences(before, k.table(pair.target, 10), moved=False) == []


def test_refresh_updates_copies_and_creates_what_is_gone(pair: Pair, sent: Batch) -> None:
    _session(pair.source, 7, sport=40001, port=1025)
    both = read_zone(pair.read, 7)
    _session(pair.target, 9, timeout_s=5)
    outcome = Applier(pair.write).refresh(both, 9)
    assert (outcome.identical, outcome.created, outcome.total) == (1, 1, 2)
    assert len(k.table(pair.target, 9)) == 2
    assert all(int.from_bytes(e[(a.TIMEOUT,)], "big") > 400 for e in k.table(pair.target, 9).values())
    assert len(sent) == 1


def test_an_unknown_helper_is_refused_and_nothing_is_half_moved(pair: Pair, sent: Batch) -> None:
    (group,) = sent
    strange = Batch((Group(shape_of(replace(group.shape.spec, helper="nosuch")), group.values),))
    outcome = Applier(pair.write).apply(strange, 9)
    assert outcome.refused == {"the helper is not available": 1}
    assert k.table(pair.target, 9) == {}


def test_exactly_the_named_entry_is_deleted(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9)
    _session(pair.target, 9, sport=40001, port=1025)
    _session(pair.target, 10)
    assert delete_records(pair.write, sent, 9) == 1
    assert delete_records(pair.write, sent, 9) == 0
    assert (len(k.table(pair.target, 9)), len(k.table(pair.target, 10))) == (1, 1)


def test_a_session_with_another_translation_is_not_deleted(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9, port=55555)
    assert delete_records(pair.write, sent, 9) == 0
    assert len(k.table(pair.target, 9)) == 1


def test_entries_are_deleted_by_key_in_their_zone_only(pair: Pair, sent: Batch) -> None:
    _session(pair.target, 9)
    _session(pair.target, 9, sport=40001, port=1025)
    _session(pair.target, 10)
    assert delete_keys(pair.write, 9, sent.keys()) == 1
    assert (len(k.table(pair.target, 9)), len(k.table(pair.target, 10))) == (1, 1)
