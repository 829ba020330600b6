from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devenv.demo import report


def run(name: str = "transfer", **changes: Any) -> dict[str, Any]:
    session = {
        "name": "vm1-twin-v4", "kind": "twin", "family": 4, "vm": "vm1", "expected": "survive",
        "survived": True,
        "why": "", "translated": True, "stall_ms": 1.0, "server_saw": ["172.16.1.100:1"],
    }  # fmt: skip
    made: dict[str, Any] = {
        "name": name, "says": "x", "sessions": [session], "survived": 1, "total": 1,
        "nb_transactions": [3, 3],
        "rst_seen": 0, "icmp_unreachable_seen": 0, "private_source_seen": 0,
        "entries": dict.fromkeys(report.COUNTS, 1),
    }  # fmt: skip
    return made | changes


def test_a_clean_run_has_no_problems_and_its_table_names_every_session() -> None:
    assert report.run_problems(run()) == []
    assert "vm1-twin-v4" in report.table(run())


def test_each_way_a_transfer_can_go_wrong_is_a_problem() -> None:
    assert report.run_problems(run(rst_seen=1)) == ["rst_seen is 1"]
    assert report.run_problems(run(nb_transactions=[4])) == ["a move took 4 transactions"]
    assert report.run_problems(run(entries=dict.fromkeys(report.COUNTS, 0))) == ["no entry was transferred"]
    two = run()
    two["sessions"][0]["server_saw"] = ["a:1", "a:2"]
    assert "2 addresses" in report.run_problems(two)[0]
    dead = run()
    dead["sessions"][0] |= {"survived": False, "why": "reset"}
    assert "died: reset" in report.run_problems(dead)[0]


def test_the_pauses_of_real_vms_are_in_the_table() -> None:
    assert "vm1 31, 28 ms" in report.table(run(guest_pause_ms={"vm1": [31, 28]}))


def test_a_control_that_kills_nobody_is_a_problem() -> None:
    control = run("no-transfer")
    control["sessions"][0]["expected"] = "either"
    assert len(report.run_problems(control)) == 2


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    written = report.write({"runs": [run()]}, tmp_path / "demo")
    assert json.loads(written.read_text())["runs"][0]["name"] == "transfer"
    assert [p.name for p in (tmp_path / "demo").iterdir()] == ["report.json"]
