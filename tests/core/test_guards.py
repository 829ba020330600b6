from __future__ import annotations

import inspect

from ovnmig.core import guards
from ovnmig.core.transitions import ROWS


def test_every_guard_is_used_by_a_row_and_says_what_it_asks() -> None:
    used = {row.when for row in ROWS if row.when is not None}
    own = {
        function
        for name, function in inspect.getmembers(guards, inspect.isfunction)
        if function.__module__ == guards.__name__ and not name.startswith("_")
    }
    assert used == own - {guards.auto} | ({guards.auto} & used)
    assert all(function.__doc__ for function in own)
