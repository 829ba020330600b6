"""What the program in a real VM says, read as the demo's client would have noted it."""

from __future__ import annotations

import pytest

from devenv.demo.realclient import open_sessions, read_report
from devenv.guest.qemurecord import Moved
from devenv.guest.shell import ClusterError

PUSH = {"name": "vm1-push-v6", "kind": "push", "family": 6, "source_port": 21001, "server_port": 7003}


def test_a_session_is_opened_at_the_server_of_its_family_and_its_address_noted() -> None:
    orders: list[str] = []

    def answer(order: str) -> str:
        orders.append(order)
        return "open fd00::b 21001 c4"

    notes = open_sessions(answer, {"4": "192.0.2.1", "6": "fd00::1"}, [PUSH])
    assert orders == ["open vm1-push-v6 push 6 21001 fd00::1 7003"]
    assert notes["vm1-push-v6"] == {"kind": "push", "local": ["fd00::b", 21001], "connection": "c4"}


def test_a_session_that_cannot_be_opened_is_named_with_the_reason() -> None:
    with pytest.raises(ClusterError, match="vm1-push-v6 cannot be opened: Connection refused"):
        open_sessions(lambda _: "failed Connection refused", {"6": "fd00::1"}, [PUSH])


def test_a_report_tells_fate_checksum_and_times_of_each_session() -> None:
    lines = [
        "session one 1 4096 ab ab 0",
        "times 1000000 500000",
        "times 250000",
        "session two 0 0 - - 2000000 Connection reset by peer",
        "session three 1 10 ab cd 0",
    ]
    moved = Moved("a", "b", 101.6, 102.6, 900, 2000, 100.0, 101.0)
    found = read_report(lines, [moved], 100.0)
    assert found["one"] == {
        "ended": True, "error": "", "bytes": 4096, "sha256": "ab", "checksum_right": True,
        "received": [101.0, 101.5, 102.75],
    }  # fmt: skip
    assert found["two"]["error"] == "Connection reset by peer"
    assert found["two"]["error_at"] == 103.0
    assert found["two"]["received"] == []
    assert "checksum_right" not in found["two"]
    assert found["three"]["checksum_right"] is False
