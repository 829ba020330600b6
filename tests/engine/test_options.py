from __future__ import annotations

from ovnmig.core.deadlines import Limits
from ovnmig.engine.options import EngineOptions


def test_the_deadlines_are_the_documented_ones_unless_set() -> None:
    options = EngineOptions()
    assert options.limits == Limits(preparing_s=60.0, copying_s=120.0, ready_s=600.0, switching_s=10.0)
    assert options.zone_range == (32768, 63999)
    assert options.sweep_s == 15.0
