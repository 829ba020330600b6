from __future__ import annotations

from dataclasses import replace

from ovnmig.core.conflicts import Findings
from ovnmig.core.switches import find_switch
from ovnmig.core.udn import UdnRequest, UdnSpec
from ovnmig.core.views import NbView
from tests.core.worlds import NB, REQUEST, owned, spec, switch

CREATE = replace(REQUEST, switch=None, create_switch=True)
OWN_NET = NbView(
    switches=(switch("blue"), switch("ovnmig_ext-blue")),
    owned=(
        owned("uuid-blue", "switch", "Logical_Switch"),
        owned("uuid-ovnmig_ext-blue", "external-switch", "Logical_Switch"),
    ),
)


def find(
    request: UdnRequest, nb: NbView = NB, current: UdnSpec | None = None
) -> tuple[tuple[str, str | None], list[str]]:
    found = Findings()
    return find_switch(request, nb, current, found), [problem.code for problem in found.problems]


def test_an_existing_switch_is_found_by_name_or_uuid() -> None:
    assert find(REQUEST) == (("net", "uuid-net"), [])
    assert find(replace(REQUEST, switch="uuid-net")) == (("net", "uuid-net"), [])


def test_an_unknown_switch_is_refused() -> None:
    assert find(replace(REQUEST, switch="nowhere")) == (("nowhere", None), ["unknown-switch"])


def test_of_two_switches_of_one_name_one_must_be_named_by_uuid() -> None:
    nb = NbView(switches=(switch("net", uuid="u1"), switch("net", uuid="u2")))
    found = Findings()
    find_switch(REQUEST, nb, None, found)
    assert found.problems[0].code == "ambiguous-switch"
    assert found.problems[0].message.endswith("by its UUID: u1, u2")
    assert find(replace(REQUEST, switch="u2"), nb) == (("net", "u2"), [])


def test_a_switch_is_created_under_the_udns_or_a_given_name() -> None:
    assert find(CREATE) == (("blue", None), [])
    assert find(replace(CREATE, switch="other")) == (("other", None), [])
    assert find(replace(CREATE, switch="net")) == (("net", None), ["switch-exists"])


def test_a_switch_must_be_named_or_created() -> None:
    assert find(replace(REQUEST, switch=None)) == (("", None), ["switch-missing"])


def test_a_change_keeps_the_switch() -> None:
    assert find(replace(REQUEST, switch=None), current=spec()) == (("net", "uuid-net"), [])


def test_a_switch_of_ours_stays_ours() -> None:
    assert find(CREATE, OWN_NET) == (("blue", None), [])
    assert find(replace(REQUEST, switch="blue"), OWN_NET) == (("blue", None), [])


def test_our_external_switch_is_not_a_udns_switch() -> None:
    assert find(replace(REQUEST, switch="ovnmig_ext-blue"), OWN_NET)[1] == ["unknown-switch"]
