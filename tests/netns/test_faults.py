"""A full table, lost acknowledgements, entries that vanish, a socket without rights."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from ovnmig.conntrack import (
    Applier,
    Ledger,
    NetlinkSocket,
    Outcome,
    apply_and_verify,
    delete_records,
    dump_zones,
    identities_in,
    missing_identities,
    missing_records,
    read_zone,
)
from ovnmig.conntrack.records import Batch
from ovnmig.conntrack.stats import table_stats
from tests.bench.conntrack import sessions
from tests.netns.conftest import Pair
from tests.netns.spaces import inside


def test_a_full_table_refuses_the_rest_once_and_says_k_of_n(pair: Pair) -> None:
    stats = inside(pair.target, table_stats)
    assert stats.count == 0
    wanted = stats.max + 5000
    outcome = Applier(pair.write).apply(sessions(wanted), 9)
    assert outcome.total == wanted
    assert stats.max - 200 <= outcome.created <= stats.max
    assert outcome.refused == {"the connection table is full": wanted - outcome.created}
    assert len(outcome.refusals) == 1000
    assert inside(pair.target, table_stats).room == stats.max - outcome.created
    again = Applier(pair.write).apply(sessions(1000), 9)
    assert (again.identical, again.total) == (1000, 1000)


def test_with_little_room_the_longest_living_are_tried_first(pair: Pair) -> None:
    (group,) = sessions(10)
    values = group.values.copy()
    values[:, -1] = np.arange(100, 110, dtype=">u4").view(np.uint32)
    outcome = Applier(pair.write).apply(Batch((type(group)(group.shape, values),)), 9, room=3)
    assert (outcome.created, outcome.refused) == (3, {"the connection table is full": 7})
    (kept,) = read_zone(pair.write, 9)
    assert min(kept.timeouts_s()) >= 105


def test_lost_acknowledgements_do_not_change_the_count(pair: Pair) -> None:
    batch = sessions(2000)
    assert Applier(pair.write).apply(batch, 9).created == 2000
    with inside(pair.target, lambda: NetlinkSocket(receive_buffer=2048)) as small:
        outcome = Applier(small).apply(batch, 9, update=False)
    assert (outcome.applied, outcome.total) == (2000, 2000)
    assert len(identities_in(pair.write, 9)) == 2000


def test_a_refusal_whose_answer_was_lost_is_not_taken_for_a_success(pair: Pair) -> None:
    batch = sessions(2000)
    (group,) = batch
    values = group.values.copy()
    values[:, group.shape.at("nat_src_port")] = group.values[::-1, group.shape.at("nat_src_port")]
    assert Applier(pair.write).apply(Batch((type(group)(group.shape, values),)), 9).created == 2000
    with inside(pair.target, lambda: NetlinkSocket(receive_buffer=2048)) as small:
        outcome = Applier(small).apply(batch, 9)
    assert outcome.refused == {"the session lives here with another translation": 2000}
    assert outcome.total == 2000
    assert sorted(outcome.not_applied) == sorted(batch.keys().tolist())


def test_entries_that_vanish_are_named_and_put_back(pair: Pair) -> None:
    batch = sessions(500)
    Applier(pair.write).apply(batch, 9)
    some = batch.pick(np.arange(500) % 50 == 0)
    assert delete_records(pair.write, some, 9) == 10
    assert sorted(missing_identities(pair.write, 9, batch.identities())) == sorted(some.identities())
    missing = missing_records(pair.write, 9, batch)
    assert sorted(missing.keys()) == sorted(some.keys())
    outcome = apply_and_verify(pair.write, batch, 9)
    assert (outcome.created, outcome.identical, outcome.lost, outcome.total) == (10, 490, 0, 500)
    assert len(missing_records(pair.write, 9, batch)) == 0


class _Forgetful(Applier):
    """Deletes some entries after it wrote them, as a flushed zone would."""

    def __init__(self, sock: NetlinkSocket, doomed: Batch) -> None:
        super().__init__(sock)
        self._own, self._doomed = sock, doomed

    def apply(self, batch: Batch, zone: int, **options: object) -> Outcome:
        outcome = super().apply(batch, zone)
        delete_records(self._own, self._doomed, zone)
        return outcome


def test_entries_that_vanish_again_and_again_are_lost_and_named(pair: Pair) -> None:
    batch = sessions(100)
    doomed = batch.pick(np.arange(100) == 3)
    outcome = apply_and_verify(pair.write, batch, 9, _Forgetful(pair.write, doomed))
    assert (outcome.created, outcome.lost, outcome.total) == (99, 1, 100)
    assert outcome.missing[0].startswith("tcp 10.1.0.3:")
    assert outcome.not_applied == doomed.keys().tolist()


def test_a_dump_given_up_halfway_leaves_the_socket_usable(pair: Pair) -> None:
    assert Applier(pair.read).apply(sessions(20_000), 7).created == 20_000
    for _, batch in dump_zones(pair.read, [7]):
        assert len(batch) < 20_000
        break
    assert len(read_zone(pair.read, 7)) == 20_000


def test_the_second_dump_finds_exactly_what_changed(pair: Pair) -> None:
    batch = sessions(3000)
    Applier(pair.read).apply(batch, 7)
    ledger = Ledger()
    ledger.record(read_zone(pair.read, 7))
    changed = batch.pick(np.arange(3000) % 100 == 0)
    group = changed.groups[0]
    values = group.values.copy()
    values[:, group.shape.at("mark")] = 7
    Applier(pair.read).apply(Batch((type(group)(group.shape, values),)), 7)
    delete_records(pair.read, batch.pick(np.arange(3000) % 100 == 1), 7)
    found = ledger.compare(read_zone(pair.read, 7))
    assert (len(found.changed), len(found.new), len(found.reborn), found.vanished.size) == (30, 0, 0, 30)
    assert sorted(found.changed.keys()) == sorted(changed.keys())


def test_without_the_right_to_administer_the_network_the_kernel_says_so(pair: Pair) -> None:
    code = (
        "from ovnmig.conntrack import NetlinkSocket, read_zone\n"
        "try:\n    read_zone(NetlinkSocket(), 7)\n"
        "except PermissionError as error:\n    print('refused', error.errno)\n"
    )
    command = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "refused 1\n"
