from __future__ import annotations

import re
from typing import get_args

from ovnmig.core import effects, events


def test_every_effect_names_the_event_that_answers_it() -> None:
    names = {kind.__name__ for kind in events.EVENT_TYPES}
    for kind in get_args(effects.Effect):
        if kind is effects.Answer:
            continue
        answer = re.search(r"Answered\s+by\s+(\w+)", kind.__doc__ or "")
        assert answer, kind
        assert answer[1] in names


def test_every_order_that_may_be_repeated_can_be_delayed() -> None:
    at_once = (effects.Commit, effects.WatchArrival, effects.Answer)
    for kind in get_args(effects.Effect):
        assert ("after_s" in kind.__dataclass_fields__) == (kind not in at_once)
