from __future__ import annotations

from ovnmig.agent.faults import RECENT_S, Faults


def test_faults_are_counted_by_side_and_kind() -> None:
    faults = Faults()
    for words in ("one", "two"):
        faults.note("sink", "format", words)
    faults.note("source", "cut", "gone")
    assert faults.counts == {("sink", "format"): 2, ("source", "cut"): 1}


def test_a_fault_of_an_incoming_stream_is_told_for_a_while_and_a_later_one_takes_its_place() -> None:
    now = [100.0]
    faults = Faults(lambda: now[0])
    faults.note("sink", "version", "stream version 2")
    faults.note("source", "cut", "told by its transfer")
    faults.note("sink", "cut", "told by the other side")
    assert faults.alarms() == ("an incoming stream ended by a fault (version, 1 so far): stream version 2",)
    now[0] += RECENT_S / 2
    faults.note("sink", "version", "stream version 3")
    faults.note("sink", "format", "noise")
    now[0] += RECENT_S / 2
    assert [words.rpartition(": ")[2] for words in faults.alarms()] == ["stream version 3", "noise"]
    now[0] += RECENT_S
    assert faults.alarms() == ()
    assert faults.counts["sink", "version"] == 2
