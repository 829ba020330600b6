"""Which records a take-over may assume to be established."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from ovnmig.conntrack.entry import entries
from ovnmig.conntrack.messages import Status
from ovnmig.conntrack.promote import PROMOTED_TIMEOUT_S, at_least, promote
from ovnmig.conntrack.records import check
from ovnmig.conntrack.transform import Transformer
from tests.conntrack.chunks import chunk_of
from tests.conntrack.generate import Dumped, dumped

_OPENING = {"NONE", "SYN_SENT", "SYN_RECV", "SYN_SENT2"}
_SURE = Status.SEEN_REPLY | Status.ASSURED


@given(dumped())
def test_opening_tcp_sessions_become_established_and_nothing_else_changes(dump: Dumped) -> None:
    before = Transformer().read(chunk_of([dump.message()])).batch(dump.zone)
    after = promote(before)
    check(after.groups[0])
    (old,), (new,) = entries(before.groups[0]), entries(after.groups[0])
    if old.proto == "tcp" and old.state in _OPENING:
        assert (new.state, new.status) == ("ESTABLISHED", old.status | _SURE)
        assert new.timeout_s == min(old.timeout_s, PROMOTED_TIMEOUT_S)
        assert (before.identities() == after.identities()).all()
    else:
        assert new == old


@given(dumped())
def test_no_record_is_left_with_less_time_than_asked(dump: Dumped) -> None:
    before = Transformer().read(chunk_of([dump.message()])).batch(dump.zone)
    after = at_least(before, 60)
    check(after.groups[0])
    (old,), (new,) = entries(before.groups[0]), entries(after.groups[0])
    assert new.timeout_s == max(old.timeout_s, 60)
    assert replace(new, timeout_s=old.timeout_s) == old
