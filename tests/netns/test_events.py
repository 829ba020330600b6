"""Events of real entries: coalesced per session, per zone, and what happens when they are lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ovnmig.conntrack import Applier, EventSocket, delete_records, ensure_events, entries, read_zone
from ovnmig.conntrack import attrs as a
from tests.bench.conntrack import sessions
from tests.netns import kernel as k
from tests.netns.conftest import Pair
from tests.netns.spaces import inside

SERVER, VM = "172.16.1.50", "10.1.0.5"


def _udp(name: str, zone: int, sport: int = 4000, mark: int = 0) -> None:
    parts = (
        k.tuple_attr(a.TUPLE_ORIG, 17, VM, SERVER, sport, 53),
        k.tuple_attr(a.TUPLE_REPLY, 17, SERVER, VM, 53, sport),
        k.word(a.MARK, mark),
    )
    assert k.create(name, zone, 2, *parts) == 0


@pytest.fixture
def events(pair: Pair) -> Iterator[EventSocket]:
    """Follows zone 7 of the source."""
    sock = inside(pair.source, lambda: EventSocket([7]))
    with sock:
        yield sock


def _marks(batch: object) -> list[int]:
    return [entry.mark for group in batch for entry in entries(group)]  # type: ignore[attr-defined]


def test_a_new_entry_is_told_once_and_other_zones_are_not(pair: Pair, events: EventSocket) -> None:
    for zone in (0, 6, 7, 8):
        _udp(pair.source, zone, mark=zone)
    seen = events.read()
    assert list(seen.zones) == [7]
    assert _marks(seen.zones[7].present) == [7]
    assert (len(seen.zones[7].gone), seen.resync, seen.count) == (0, False, 4)
    assert events.read().count == 0


def test_an_entry_that_came_and_went_is_only_gone(pair: Pair, events: EventSocket) -> None:
    _udp(pair.source, 7)
    assert delete_records(pair.read, read_zone(pair.read, 7), 7) == 1
    seen = events.read().zones[7]
    assert (len(seen.gone), len(seen.present)) == (1, 0)


def test_an_entry_reborn_with_its_tuple_is_gone_and_present(pair: Pair, events: EventSocket) -> None:
    _udp(pair.source, 7, mark=1)
    delete_records(pair.read, read_zone(pair.read, 7), 7)
    _udp(pair.source, 7, mark=2)
    seen = events.read().zones[7]
    assert (len(seen.gone), _marks(seen.present)) == (1, [2])


def test_only_the_last_of_many_updates_counts(pair: Pair, events: EventSocket) -> None:
    _udp(pair.source, 7, mark=1)
    for mark in (2, 3, 4):
        orig = k.tuple_attr(a.TUPLE_ORIG, 17, VM, SERVER, 4000, 53)
        assert k.set_mark(pair.source, 7, 2, orig, mark) == 0
    seen = events.read().zones[7]
    assert _marks(seen.present) == [4]


def test_what_is_gone_can_be_deleted_exactly_on_the_other_side(pair: Pair, events: EventSocket) -> None:
    _udp(pair.source, 7)
    batch = read_zone(pair.read, 7)
    Applier(pair.write).apply(batch, 9)
    delete_records(pair.read, batch, 7)
    assert delete_records(pair.write, events.read().zones[7].gone, 9) == 1
    assert k.table(pair.target, 9) == {}


def test_lost_events_are_told_and_later_ones_still_come(pair: Pair) -> None:
    with inside(pair.source, lambda: EventSocket([7], buffer=4096)) as events:
        assert Applier(pair.read).apply(sessions(3000), 7).created == 3000
        seen = events.read()
        assert seen.resync
        assert seen.count < 3000
        _udp(pair.source, 7, mark=5)
        later = events.read()
        assert (later.resync, _marks(later.zones[7].present)) == (False, [5])


def test_entries_born_while_events_were_off_stay_silent_for_ever(pair: Pair) -> None:
    # With 2 instead of 0 it depends on whether anything on the whole machine listens just now.
    path = Path("/proc/sys/net/netfilter/nf_conntrack_events")
    inside(pair.source, lambda: path.write_text("0\n"))
    _udp(pair.source, 7, sport=1)
    assert inside(pair.source, lambda: ensure_events(path))
    assert not inside(pair.source, lambda: ensure_events(path))
    _udp(pair.source, 7, sport=2)
    with inside(pair.source, lambda: EventSocket([7])) as events:
        assert delete_records(pair.read, read_zone(pair.read, 7), 7) == 2
        gone = events.read().zones[7].gone
        assert [entry.sport for group in gone for entry in entries(group)] == [2]
