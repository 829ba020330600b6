from __future__ import annotations

import re

import pytest

from ovnmig.cli.output import cell, clock, pairs, print_json, print_json_line, say, say_error, table


def test_values_are_shown_as_people_read_them() -> None:
    nothing: list[object] = [None, "", [], {}]
    assert [cell(v) for v in nothing] == ["-"] * 4
    assert cell(0) == "0"
    assert [cell(v) for v in (True, False, ["a", "b"], {"k": 1})] == ["yes", "no", "a, b", "k=1"]


def test_a_table_in_a_pipe_is_never_cut_nor_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 150
    table(["NAME", "OTHER"], [("[bold]a[/bold]", long)], empty="nothing")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "[bold]a[/bold]" in lines[1]
    assert long in lines[1]
    table(["NAME"], [], empty="nothing")
    assert capsys.readouterr().out == "nothing\n"


def test_a_list_takes_a_line_per_item(capsys: pytest.CaptureFixture[str]) -> None:
    pairs([("vips", ["a", "b"]), ("none", [])])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["vips", "a"],
        ["b"],
        ["none", "-"],
    ]


def test_errors_fit_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    say_error("refused", [f"reason {n}" for n in range(50)])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: refused"
    assert len(lines) == 22
    assert "30 more" in lines[-1]


def test_results_go_to_stdout_and_talk_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("working")
    print_json({"ü": 1})
    print_json_line({"ü": [1, 2]})
    printed = capsys.readouterr()
    assert printed.err == "working\n"
    assert printed.out == '{\n  "ü": 1\n}\n{"ü": [1, 2]}\n'


def test_times_are_local_wall_clock() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.5", clock("2026-01-01T12:00:02.590000Z"))
    assert clock(None) == "-"
