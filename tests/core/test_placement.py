from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovnmig.core import placement
from ovnmig.core.udn import Member, Policy, Refused
from ovnmig.core.views import NbView, SbView
from tests.core.worlds import IPV4, NB, REQUEST, SB, bound, chassis, owned, port, spec, switch

CHASSIS_NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=6)


@st.composite
def sets(draw: st.DrawFn) -> tuple[Member, ...]:
    found = draw(CHASSIS_NAMES)
    priorities = draw(st.lists(st.integers(0, 32767), min_size=len(found), max_size=len(found), unique=True))
    return tuple(Member(priority, name) for priority, name in zip(priorities, found, strict=True))


def ranks(members: tuple[Member, ...]) -> list[str]:
    assert len({member.priority for member in members}) == len(members)
    assert all(0 <= member.priority <= placement.MAX_PRIORITY for member in members)
    return [member.chassis for member in placement.by_rank(members)]


def test_the_anchors_chassis_comes_first_and_a_standby_is_there_from_the_first_moment() -> None:
    chosen = placement.choose(spec(), NB, SB)
    assert ranks(chosen.members)[0] == "b"
    assert len(chosen.members) == 2
    assert chosen.reasons["b"] == "active: maps phys, runs the anchor VM"
    assert chosen.reasons["x"] == "not eligible: does not map physical network phys"
    assert sorted(reason.split(":")[0] for reason in chosen.reasons.values()) == [
        "active",
        "not eligible",
        "spare",
        "standby",
    ]


def test_a_pinned_gateway_ignores_the_anchor_and_prefers_marked_chassis() -> None:
    sb = SbView(chassis=(chassis("a", "phys"), chassis("b", "phys", preferred=True)), bindings=SB.bindings)
    pinned = spec(replace(REQUEST, policy=Policy.PINNED))
    chosen = placement.choose(pinned, NB, replace(sb, bindings=(bound("vm1", "a"),)))
    assert ranks(chosen.members) == ["b", "a"]
    assert chosen.reasons["b"] == "active: maps phys, is marked enable-chassis-as-gw"


def test_the_allowed_list_limits_and_orders_the_candidates() -> None:
    listed = spec(replace(REQUEST, policy=Policy.PINNED, chassis=("c", "a")))
    chosen = placement.choose(listed, NB, SB)
    assert ranks(chosen.members) == ["c", "a"]
    assert chosen.reasons["b"] == "not eligible: not in the list of allowed chassis"
    assert chosen.reasons["c"].endswith("number 1 of the allowed list")


def test_equal_candidates_share_the_gateways_of_many_udns() -> None:
    pinned = spec(replace(IPV4, policy=Policy.PINNED))
    first = {ranks(placement.choose(replace(pinned, name=f"udn{i}"), NB, SB).members)[0] for i in range(40)}
    assert first == {"a", "b", "c"}


def test_a_lone_chassis_works_and_is_called_unprotected() -> None:
    sb = SbView(chassis=(chassis("a", "phys"),))
    chosen = placement.choose(spec(IPV4), NB, sb)
    assert ranks(chosen.members) == ["a"]
    assert chosen.reasons["a"] == "active: maps phys (unprotected: no standby)"


def test_a_change_moves_nothing() -> None:
    members = (Member(7, "c"), Member(3, "a"))
    chosen = placement.choose(spec(), NB, SB, current=members)
    assert chosen.members == members
    assert "is a member already" in chosen.reasons["c"]
    assert chosen.reasons["b"] == "spare: 2 of 2 places are taken"


def test_a_member_that_is_no_longer_eligible_is_replaced() -> None:
    chosen = placement.choose(spec(), NB, SB, current=(Member(7, "x"), Member(3, "a")))
    assert ranks(chosen.members) == ["a", "b"]


def test_a_lone_member_grows_only_on_request() -> None:
    lone = (Member(10, "a"),)
    kept = placement.choose(spec(), NB, SB, current=lone)
    assert kept.members == lone
    assert kept.reasons["b"].startswith("spare: adding a standby interrupts")
    assert ranks(placement.choose(spec(), NB, SB, current=lone, grow=True).members) == ["a", "b"]


def test_no_candidate_is_refused_with_the_physical_networks_there_are() -> None:
    with pytest.raises(Refused, match="mapped ones: other, phys"):
        placement.choose(replace(spec(), physical_network="none"), NB, SB)
    with pytest.raises(Refused, match="mapped ones: none"):
        placement.choose(spec(), NB, SbView())


def test_no_candidate_in_the_allowed_list_is_a_conflict() -> None:
    with pytest.raises(Refused, match="these do: a, b, c") as refused:
        placement.choose(replace(spec(), chassis=("x",)), NB, SB)
    assert refused.value.problems[0].conflict


def test_the_anchor_is_the_named_port_or_the_only_vm_of_the_switch() -> None:
    assert placement.anchor_port(replace(spec(), anchor="vm9"), NB) == "vm9"
    assert placement.anchor_port(spec(), NB) == "vm1"
    two = NbView(switches=(switch("net", port("vm1"), port("vm2"), port("r", kind="router")),))
    assert placement.anchor_port(spec(), two) is None
    assert placement.anchor_port(spec(), NbView()) is None


def test_the_anchor_of_a_switch_of_ours_is_found_by_the_marks() -> None:
    ours = replace(spec(), switch_uuid=None)
    nb = NbView(switches=NB.switches, owned=(owned("uuid-net", "switch", "Logical_Switch"),))
    assert placement.anchor_port(ours, nb) == "vm1"
    assert placement.anchor_port(ours, NB) is None


def test_an_unbound_or_unknown_anchor_places_nothing() -> None:
    assert placement.anchor_chassis(spec(), NB, SbView()) is None
    assert placement.anchor_chassis(spec(), NB, SbView(bindings=(bound("vm1", ""),))) is None
    assert placement.anchor_chassis(spec(), NbView(), SB) is None
    assert placement.anchor_chassis(spec(), NB, SB) == "b"


@given(sets(), st.sampled_from("abcdefgh"))
def test_a_target_enters_below_all_others_and_keeps_their_order(
    members: tuple[Member, ...], target: str
) -> None:
    before = ranks(members)
    after = ranks(placement.with_target(members, target))
    assert after == (before if target in before else [*before, target])


@given(sets(), st.sampled_from("abcdefgh"))
def test_a_raised_target_is_above_all_others_which_keep_their_order(
    members: tuple[Member, ...], target: str
) -> None:
    after = ranks(placement.raised(members, target))
    assert after == [target, *(name for name in ranks(members) if name != target)]
    assert placement.raised(placement.raised(members, target), target) == placement.raised(members, target)


@given(sets(), st.integers(0, 4), st.data())
def test_a_trimmed_set_has_the_owner_first_and_then_the_former(
    members: tuple[Member, ...], standby_count: int, data: st.DataObject
) -> None:
    present = ranks(members)
    owner = data.draw(st.sampled_from(present))
    former = data.draw(st.sampled_from([None, *present]))
    after = ranks(placement.trimmed(members, owner, standby_count, former))
    assert after[0] == owner
    assert len(after) == min(len(present), 1 + standby_count)
    assert set(after) <= set(present)
    if former is not None and standby_count:
        assert former in after[:2]


def test_a_drained_chassis_leaves_the_set_when_it_closes() -> None:
    members = (Member(30, "b"), Member(20, "a"), Member(10, "c"))
    assert ranks(placement.trimmed(members, "b", 1, "a", frozenset({"a"}))) == ["b", "c"]
    assert ranks(placement.trimmed(members, "b", 1, None, frozenset({"b"}))) == ["b", "a"]


def test_priorities_are_renumbered_when_there_is_no_room() -> None:
    assert placement.raised((Member(32767, "a"), Member(0, "b")), "c") == placement.numbered(("c", "a", "b"))
    assert placement.with_target((Member(1, "a"), Member(0, "b")), "c") == placement.numbered(("a", "b", "c"))
    assert placement.with_target((), "c") == (Member(5, "c"),)
    assert placement.raised((), "c") == (Member(10, "c"),)
