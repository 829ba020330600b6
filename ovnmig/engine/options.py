"""What can be set about the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from ovnmig.core.deadlines import Limits
from ovnmig.core.validate import DEFAULT_ZONES


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """``watch_s``: how long the supervisor waits for a change of the Northbound database before it looks
    anyway (and how soon a standby notices that it leads). ``rest_s``: pause before a migration whose task
    broke is resumed. ``sweep_s``: how often agents are asked for orders that nobody wants any more."""

    limits: Limits = field(default_factory=Limits)
    zone_range: tuple[int, int] = DEFAULT_ZONES
    watch_s: float = 1.0
    rest_s: float = 5.0
    sweep_s: float = 15.0
