from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ovnmig.core import replication
from ovnmig.core.document import UdnDocument
from ovnmig.core.orphans import AGAIN_S, YOUNG_S, Key, Known, confirmed, unwanted
from ovnmig.core.placement import numbered
from ovnmig.core.transfer import HeldOrder, OrderKind
from ovnmig.core.udn import Replication
from tests.core import worlds
from tests.core.machine import a_record

SPEC = worlds.spec()
REPLICATED = replace(SPEC, replication=Replication.CONTINUOUS)
UDN = SPEC.name
OURS = "house"


def transfer(**changes: Any) -> HeldOrder:
    """A transfer of migration m9, which is not open anywhere, older than young."""
    return replace(
        HeldOrder(OrderKind.TRANSFER, "m9", UDN, 5, YOUNG_S, migration="m9", deployment=OURS, target="B"),
        **changes,
    )


def keep(target: str = "B", **changes: Any) -> HeldOrder:
    """A standing transfer."""
    ident = replication.keep_id(UDN, target)
    return transfer(id=ident, migration="", keep=True, target=target, **changes)


def standing(**changes: Any) -> HeldOrder:
    """A standing announcement."""
    ident = replication.standby_id(UDN)
    return transfer(kind=OrderKind.ANNOUNCEMENT, id=ident, migration="", target="", **changes)


def known(*, running: str = "", owner: str = "A", epoch: int = 5, **changes: Any) -> dict[str, Known]:
    record = a_record(id=running, source="A", target="C") if running else None
    document = UdnDocument(changes.get("spec", SPEC), numbered(("A", "B")), record)
    return {UDN: Known(document, epoch, owner)}


REPLICATES = known(spec=REPLICATED)


@pytest.mark.parametrize(
    ("order", "chassis", "udns", "words"),
    [
        (transfer(), "A", known(), "migration m9 is not open any more"),
        (transfer(), "A", known(running="m10"), "migration m9 is not open any more"),
        (transfer(), "A", known(running="m9"), ""),
        (transfer(id="m9-back"), "C", known(running="m9"), ""),
        (transfer(kind=OrderKind.ANNOUNCEMENT, target=""), "B", known(), "migration m9 is not open any more"),
        (transfer(), "A", {}, "there is no UDN 'blue' any more"),
        (keep(), "A", {}, "there is no UDN 'blue' any more"),
        (standing(), "A", {}, "there is no UDN 'blue' any more"),
        (transfer(age_s=YOUNG_S - 0.1), "A", {}, ""),
        (transfer(epoch=6), "A", known(), ""),
        (keep(epoch=6), "A", known(), ""),
        (transfer(deployment="theirs"), "A", known(), ""),
        (transfer(deployment=""), "A", known(), ""),
        (transfer(migration=""), "A", {}, ""),
        (keep(), "A", known(), "the UDN is not replicated any more"),
        (standing(), "A", known(), "the UDN is not replicated any more"),
        (keep(), "A", REPLICATES, ""),
        (keep("A"), "B", REPLICATES, ""),
        (standing(), "B", REPLICATES, ""),
        (keep("D"), "A", REPLICATES, "D is not in the gateway's HA set any more"),
        (keep("A"), "D", REPLICATES, "D is not in the gateway's HA set any more"),
        (standing(), "D", REPLICATES, "D is not in the gateway's HA set any more"),
        (keep("D"), "A", known(spec=REPLICATED, owner=""), ""),
        (keep("B"), "D", known(spec=REPLICATED, owner="D"), ""),
        (keep("B"), "C", known(spec=REPLICATED, running="m10"), ""),
    ],
)
def test_what_no_record_asks_for_is_unwanted_and_what_might_be_asked_for_is_left(
    order: HeldOrder, chassis: str, udns: dict[str, Known], words: str
) -> None:
    assert unwanted(order, chassis, OURS, udns, ()) == words


def test_of_a_udn_whose_record_cannot_be_read_nothing_is_touched() -> None:
    assert unwanted(transfer(), "A", OURS, {}, {UDN}) == ""


def test_a_controller_without_a_name_touches_nothing() -> None:
    assert unwanted(transfer(deployment=""), "A", "", {}, ()) == ""


KEY: Key = ("A", OrderKind.TRANSFER, "m9")


def test_what_is_unwanted_is_ended_when_it_is_so_the_second_time() -> None:
    sure, since = confirmed({KEY: transfer(age_s=60)}, {}, 100.0)
    assert (sure, since) == ((), {KEY: 100.0})
    sure, since = confirmed({KEY: transfer(age_s=61)}, since, 101.0)
    assert (sure, since) == ((), {KEY: 100.0})
    sure, since = confirmed({KEY: transfer(age_s=60 + AGAIN_S)}, since, 100.0 + AGAIN_S)
    assert (sure, since) == ((KEY,), {KEY: 100.0})


def test_what_was_wanted_in_between_or_given_anew_begins_anew() -> None:
    assert confirmed({}, {KEY: 100.0}, 120.0) == ((), {})
    assert confirmed({KEY: transfer(age_s=19.0)}, {KEY: 100.0}, 120.0) == ((), {KEY: 120.0})
