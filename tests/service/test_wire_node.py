from __future__ import annotations

from ovnmig.engine.protocols import Health, JournalEvent
from ovnmig.service import examples
from ovnmig.service.wire_node import event_answer, node_answer, ready_answer
from tests.service.fake import node


def test_an_agent_that_does_not_answer_leaves_its_fields_null() -> None:
    answer = node_answer(node("gw-1", agent=False)).model_dump()
    assert answer["agent_up"] is False
    assert answer["agent_problem"]
    assert {answer[k] for k in ("agent_version", "agent_entries", "agent_stream_port")} == {None}
    assert set(answer) == set(examples.NODE)


def test_events_and_health_carry_everything() -> None:
    event = event_answer(JournalEvent(3, 0.5, "phase", "blue", "m1", "copying -> ready", {"n": 1}))
    assert event.model_dump(mode="json") == {
        "seq": 3, "at": "1970-01-01T00:00:00.500000Z", "kind": "phase", "udn": "blue", "migration": "m1",
        "message": "copying -> ready", "details": {"n": 1},
    }  # fmt: skip
    assert ready_answer(Health(False, "standby", ("x",))).problems == ["x"]
