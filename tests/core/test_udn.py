from __future__ import annotations

from ovnmig.core.names import gateway_names
from ovnmig.core.udn import Member, Problem, Refused


def test_the_chassisredirect_port_follows_ovns_rule() -> None:
    named = gateway_names("blue")
    assert named.chassis_redirect_port == "cr-" + named.external_port


def test_a_refusal_says_all_of_its_reasons() -> None:
    refused = Refused((Problem("a", "one is wrong"), Problem("b", "two is wrong")))
    assert str(refused) == "one is wrong; two is wrong"
    assert [problem.code for problem in refused.problems] == ["a", "b"]


def test_members_sort_by_priority() -> None:
    assert sorted((Member(20, "a"), Member(10, "b"))) == [Member(10, "b"), Member(20, "a")]
