from __future__ import annotations

import struct
from contextlib import suppress
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.agent import openflow
from ovnmig.agent.openflow import Message, OpenFlowError, Type


def messages(data: bytes) -> list[Message]:
    return list(openflow.split(bytearray(data)))


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=5), st.integers(1, 30))
def test_messages_survive_any_cutting_of_the_bytes(sent: list[tuple[int, bytes]], cut: int) -> None:
    wire = b"".join(struct.pack("!BBHI", 6, kind, 8 + len(body), 5) + body for kind, body in sent)
    buffer, got = bytearray(), []
    for start in range(0, len(wire), cut):
        buffer += wire[start : start + cut]
        got += [(one.type, one.body) for one in openflow.split(buffer)]
    assert got == sent


def test_a_length_below_the_header_is_an_error() -> None:
    with pytest.raises(OpenFlowError, match="4 bytes long"):
        messages(struct.pack("!BBHI", 6, 0, 4, 1))


@pytest.mark.parametrize(
    ("version", "bitmap", "agreed"), [(6, 0x7E, 6), (6, 0x30, 5), (5, None, 5), (4, None, 4), (9, None, 6)]
)
def test_the_highest_common_version_is_taken(version: int, bitmap: int | None, agreed: int) -> None:
    body = b"" if bitmap is None else struct.pack("!HHI", 1, 8, bitmap)
    assert openflow.agree(Message(version, Type.HELLO, 1, body)) == agreed


@pytest.mark.parametrize(("version", "bitmap"), [(1, None), (3, None), (6, 0x0E)])
def test_without_a_common_version_the_column_to_look_at_is_named(version: int, bitmap: int | None) -> None:
    body = b"" if bitmap is None else struct.pack("!HHI", 1, 8, bitmap)
    with pytest.raises(OpenFlowError, match="protocols"):
        openflow.agree(Message(version, Type.HELLO, 1, body))


def test_monitors_are_not_asked_of_an_old_version() -> None:
    with pytest.raises(OpenFlowError, match=r"OpenFlow 1\.4"):
        openflow.monitor_destination(4, 1, 0, ip_address("10.0.0.1"))


@given(st.binary(max_size=200))
def test_a_broken_monitor_reply_is_an_openflow_error_or_nothing(noise: bytes) -> None:
    for body in (noise, struct.pack("!HH4x", 16, 0) + noise):
        with suppress(OpenFlowError):
            openflow.flow_updates(Message(6, Type.MULTIPART_REPLY, 1, body))


def test_refusals_are_told_in_numbers() -> None:
    refused = Message(6, Type.ERROR, 1, struct.pack("!HH", 4, 7))
    assert openflow.error_text(refused).endswith("type 4 code 7")
    assert "protocols" in openflow.error_text(Message(6, Type.ERROR, 1, bytes(4)))
    assert "refused" in openflow.error_text(Message(6, Type.ERROR, 1, b""))
