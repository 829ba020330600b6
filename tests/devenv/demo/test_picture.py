from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from devenv.demo import picture
from devenv.demo.judge import Move, Record
from devenv.demo.plan import Session

SVG = "{http://www.w3.org/2000/svg}"


def record(name: str, silent_from: float, silent_until: float) -> Record:
    """A session with ten arrivals a second from 10 s to 40 s, but for a silence."""
    times = [10.0 + n / 10 for n in range(300)]
    heard = [t for t in times if not silent_from < t < silent_until]
    return Record(
        Session(name, "download", 4, "vm1"),
        to_vm=heard,
        to_server=[],
        opened=10.0,
        settled=10.0,
        planned_end=40.0,
        ended=True,
    )


def told(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "survived": True, "stall_ms": 0.0} | changes


def report() -> dict[str, Any]:
    records = [record("steady", 0, 0), record("stalls", 20.05, 21.95), record("<dies>", 20.05, 50)]
    sessions = [
        told("steady"),
        told("stalls", stall_ms=1900.0),
        told("<dies>", survived=False),
    ]
    run = {
        "name": "control", "says": "a & b", "sessions": sessions, "survived": 2, "total": 3,
        "timeline": picture.timeline(records, sessions, [Move(20.0, 21.0)]),
    }  # fmt: skip
    return {"ovn": "25.03", "kernel": "6.12", "runs": [run, {"name": "of an older report"}]}


def tree(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own picture


def words(svg: str) -> list[str]:
    return [element.text or "" for element in tree(svg).iter(f"{SVG}text")]


def colours(svg: str, colour: str) -> list[float]:
    return [
        float(element.attrib["width"])
        for element in tree(svg).iter(f"{SVG}rect")
        if element.attrib["fill"] == colour
    ]


def test_times_count_from_the_moment_all_sessions_were_open_and_the_longest_silence_is_kept() -> None:
    data = report()["runs"][0]["timeline"]
    assert data["moves"] == [[10.0, 11.0]]
    assert data["length_s"] == 30.0
    steady, stalls, dies = data["lanes"]
    assert sum(steady["counts"]) == 300
    assert sum(stalls["counts"][41:47]) == 0
    assert stalls["gap"] == [10.0, 2.0]
    assert dies["gap"] == [10.0, 20.0]


def test_the_picture_says_of_every_session_what_became_of_it() -> None:
    said = words(picture.draw(report()))
    for text in (
        "steady",
        "lives, stall < 50 ms",
        "lives, stall 1900 ms",
        "<dies>",
        "died",
        "control: a & b",
    ):
        assert text in said
    assert "2 of 3 live on" in said
    assert "move 1: 1.0 s" in said


def test_a_stall_and_a_death_are_marked_as_long_as_they_last() -> None:
    svg = picture.draw(report())
    (stall,) = colours(svg, "#e08e0b")
    (death,) = colours(svg, "#c0392b")
    assert death > 9 * stall > 0


def test_a_report_without_timelines_is_still_a_picture() -> None:
    assert words(picture.draw(report() | {"runs": []}))


def test_the_picture_is_written_whole(tmp_path: Path) -> None:
    written = picture.write(report(), tmp_path / "demo")
    assert tree(written.read_text()).tag == f"{SVG}svg"
    assert [p.name for p in (tmp_path / "demo").iterdir()] == ["timeline.svg"]
