from __future__ import annotations

from ovnmig.core import wording
from ovnmig.core.events import CopyObserved
from ovnmig.core.legs import Leg
from ovnmig.core.transfer import TransferState
from tests.core.machine import a_record, status


def test_the_first_reason_stays() -> None:
    record = wording.because(a_record(), "the first")
    assert wording.because(record, "the second").reason == "the first"


def test_a_warning_is_given_once_and_an_empty_one_never() -> None:
    record = wording.warned(wording.warned(a_record(), "careful"), "careful")
    assert wording.warned(record, "").warnings == ("careful",)


def test_what_is_waited_for_is_replaced() -> None:
    assert wording.waiting(a_record(waits_for="a"), "b").waits_for == "b"


def test_an_observation_brings_counts_and_a_warning_for_a_lost_port_zone() -> None:
    lost = status(Leg.PORT, TransferState.FAILED)
    record = wording.seen(a_record(), CopyObserved({Leg.GATEWAY: status(Leg.GATEWAY), Leg.PORT: lost}))
    assert record.counts.read == 6
    assert record.unmoved == ()
    assert record.warnings == ("the VM's own zone could not be moved: no reason given",)
