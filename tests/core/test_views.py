from __future__ import annotations

from ovnmig.core.views import NbView, RecordRow
from tests.core.worlds import SB


def test_a_record_a_chassis_and_a_binding_are_found_by_name() -> None:
    record = RecordRow("r", "blue", 1, "{}")
    nb = NbView(records=(RecordRow("q", "green", 1, "{}"), record))
    assert nb.record("blue") is record
    assert nb.record("red") is None
    chassis, binding = SB.find_chassis("b"), SB.binding("vm1")
    assert chassis is not None
    assert chassis.name == "b"
    assert binding is not None
    assert binding.chassis == "b"
    assert SB.find_chassis("nine") is None
    assert SB.binding("vm9") is None
