from __future__ import annotations

from devenv.demo.gap import table, verdict
from devenv.demo.gapcount import Way, row


def test_the_table_has_a_line_per_row_and_says_its_resolution() -> None:
    figures = row(Way({0: [1.0]}, {}), 1, (0.0, 6.0), [1.0])
    rows = [
        {"variant": "ovnmig", "scope": "gateway", "cold": cold, "direction": "in"} | figures
        for cold in (True, False)
    ]
    lines = table({"resolution_ms": 5.0, "rows": rows}).splitlines()
    assert len(lines) == 4
    assert "cold" in lines[1]
    assert "5000.0" in lines[2]
    assert lines[-1].endswith("5 ms")


def test_only_a_session_lost_by_ovnmig_is_a_failure() -> None:
    def code(plain: int, ours: int) -> int:
        rows = [
            {"variant": "plain-ovn", "sessions_lost": plain},
            {"variant": "ovnmig", "sessions_lost": ours},
        ]
        return verdict({"rows": rows})

    assert (code(0, 0), code(3, 0), code(0, 1)) == (0, 0, 1)
