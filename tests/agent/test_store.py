from __future__ import annotations

import pytest

from ovnmig.agent.store import Copies, Fence, StaleEpoch, known, split_known
from ovnmig.conntrack import Batch, Ledger
from ovnmig.core.transfer import ZoneKind, ZoneRef
from tests.bench.conntrack import sessions


def test_an_epoch_below_one_that_was_seen_does_not_pass() -> None:
    fence = Fence()
    for epoch in (3, 3, 5):
        fence.pass_through("blue", epoch, "an order")
    fence.pass_through("red", 1, "an order")
    with pytest.raises(StaleEpoch, match="an order of epoch 4 for UDN 'blue' came after one of epoch 5"):
        fence.pass_through("blue", 4, "an order")


def test_a_batch_is_split_by_what_a_ledger_holds() -> None:
    ledger, batch = Ledger(), sessions(10)
    assert [len(part) for part in split_known(ledger, batch)] == [0, 10]
    ledger.record(sessions(4))
    assert [len(part) for part in split_known(ledger, batch)] == [4, 6]
    assert not known(ledger, Batch().keys()).size


def test_copies_are_kept_apart_by_udn_and_zone() -> None:
    copies = Copies()
    copies.of("blue", "snat:r").record(sessions(2))
    others = (("red", "snat:r"), ("blue", "dnat:r"))
    assert [len(copies.of(*key)) for key in (("blue", "snat:r"), *others)] == [2, 0, 0]


def test_the_zones_of_all_streams_are_remembered_by_udn() -> None:
    copies, zone, port = Copies(), ZoneRef(ZoneKind.SNAT, "r"), ZoneRef(ZoneKind.PORT, "vm 1")
    copies.keep("blue", (zone,))
    copies.keep("blue", (port,))
    copies.keep("blue", (zone,))
    assert (copies.kept("blue"), copies.kept("red")) == ((zone, port), ())
    assert copies.lock("blue") is copies.lock("blue")
    assert copies.lock("blue") is not copies.lock("red")


def test_a_fence_tells_the_highest_epoch() -> None:
    fence = Fence()
    fence.pass_through("blue", 5, "an order")
    assert (fence.highest("blue"), fence.highest("red")) == (5, 0)
