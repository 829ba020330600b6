from __future__ import annotations

from dataclasses import replace

import pytest

from ovnmig.core import preflight, topology
from ovnmig.core.document import UdnDocument
from ovnmig.core.migration import Binding, MigrationRequest, TransferMode, Trigger
from ovnmig.core.preflight import AgentView, World
from ovnmig.core.rows import Row
from ovnmig.core.transfer import NodeStatus, Readiness
from ovnmig.core.udn import Member, Policy, UdnSpec
from ovnmig.core.views import BindingView, ChassisView, NbView, OwnedRow, SbView
from tests.core import worlds

SPEC = replace(
    worlds.spec(), anchor=None, policy=Policy.FOLLOW, chassis=(), physical_network="public", standby_count=1
)
MEMBERS = (Member(20, "A"), Member(10, "B"))
VM = worlds.port("vm1", options={"requested-chassis": "A", "foreign": "x"})
REQUEST = MigrationRequest("blue", "B", port="vm1", binding=Binding.OVNMIG)


def owned_rows(spec: UdnSpec, members: tuple[Member, ...]) -> tuple[OwnedRow, ...]:
    rows = topology.rows(spec, members)
    ids = {row.role: f"uuid-{row.role}" for row in rows}

    def parent(row: Row) -> str | None:
        if row.parent is None:
            return None
        return row.parent.uuid or ids[row.parent.role or ""]

    return tuple(OwnedRow(ids[r.role], spec.name, r.role, r.table, r.columns, parent(r)) for r in rows)


def world(
    *,
    spec: UdnSpec = SPEC,
    members: tuple[Member, ...] = MEMBERS,
    owner: str = "A",
    vm: str = "A",
    **ports: object,
) -> World:
    switch = replace(worlds.switch("sw", VM, worlds.port("vm2")), uuid=spec.switch_uuid or "uuid-switch")
    nb = NbView(switches=(switch,), owned=owned_rows(spec, members))
    chassis = tuple(
        ChassisView(name, f"host-{name}", ("192.0.2.1",), frozenset(networks), False)
        for name, networks in (("A", {"public"}), ("B", {"public"}), ("C", {"public"}), ("D", set[str]()))
    )
    redirect = topology.gateway_names(spec).chassis_redirect_port
    bindings = [BindingView(redirect, "chassisredirect", owner, (), (), True, "d")]
    if vm:
        bindings.append(BindingView("vm1", "", vm, (), (), True, "d"))
    datapaths = {topology.gateway_names(spec).router: "dp-uuid"}
    return World(UdnDocument(spec, members), nb, SbView(chassis, tuple(bindings), datapaths))


def codes(request: MigrationRequest, seen: World) -> list[str]:
    record = preflight.draft(request, seen, "m1", 1000.0)
    return [problem.code for problem in preflight.rows_problems(request, record, seen)]


def test_the_draft_takes_everything_a_rollback_needs_from_the_databases() -> None:
    one = worlds.switch("sw", VM)
    assert one.ports == (VM,)
    record = preflight.draft(REQUEST, world(), "m1", 1000.0)
    assert (record.id, record.source, record.port_source) == ("m1", "A", "A")
    assert record.members_before == MEMBERS
    assert record.port_options_before == {"requested-chassis": "A"}
    assert world().datapath == "dp-uuid"
    assert not record.arrived


@pytest.mark.parametrize(
    ("request_changes", "spec_changes", "moves"),
    [
        ({}, {"anchor": "vm1"}, True),
        ({}, {"anchor": "vm2"}, False),
        ({}, {}, False),  # two VMs and no anchor: nobody to follow
        ({"gateway": True}, {}, True),
        ({"gateway": False}, {"anchor": "vm1"}, False),
        ({"port": None}, {}, True),
        ({}, {"anchor": "vm1", "policy": Policy.PINNED}, False),
        ({"target": "A", "gateway": True}, {}, False),  # it is there already
    ],
)
def test_the_gateway_moves_with_its_anchor_or_by_word(
    request_changes: dict[str, object], spec_changes: dict[str, object], moves: bool
) -> None:
    request = replace(REQUEST, **request_changes)  # type: ignore[arg-type]
    spec = replace(SPEC, **spec_changes)  # type: ignore[arg-type]
    assert preflight.draft(request, world(spec=spec), "m1", 1000.0).moves_gateway is moves


def test_without_transfer_the_draft_warns() -> None:
    record = preflight.draft(replace(REQUEST, transfer=TransferMode.NONE), world(), "m1", 1000.0)
    assert "open sessions break" in record.warnings[0]


def test_a_vm_already_on_the_target_counts_as_arrived() -> None:
    assert preflight.draft(REQUEST, world(vm="B"), "m1", 1000.0).arrived


GATEWAY = replace(REQUEST, gateway=True)


@pytest.mark.parametrize(
    ("request_changes", "world_changes", "expected"),
    [
        ({}, {}, []),
        ({"overlap_s": -1.0}, {}, ["overlap"]),
        ({"target": "Z"}, {}, ["unknown-chassis"]),
        ({"target": "D"}, {}, ["target-not-eligible"]),
        ({"port": "nobody"}, {}, ["unknown-port"]),
        ({}, {"vm": ""}, ["port-unbound"]),
        ({"port": None}, {}, ["no-port"]),
        ({"port": None, "binding": Binding.EXTERNAL}, {"owner": "B"}, ["already-there"]),
        ({}, {"owner": "B", "vm": "B"}, ["already-there"]),
        ({"port": None, "binding": Binding.EXTERNAL, "gateway": False}, {}, ["nothing-to-move"]),
        ({"target": "C"}, {"members": (Member(10, "A"),)}, ["lone-gateway"]),
        ({"target": "C", "allow_interruption": True}, {"members": (Member(10, "A"),)}, []),
        ({"target": "C"}, {}, []),
    ],
)
def test_what_would_stop_it_is_named_before_a_row_is_touched(
    request_changes: dict[str, object], world_changes: dict[str, object], expected: list[str]
) -> None:
    request = replace(GATEWAY, **request_changes)  # type: ignore[arg-type]
    assert codes(request, world(**world_changes)) == expected  # type: ignore[arg-type]


def test_a_host_name_is_answered_with_its_chassis() -> None:
    record = preflight.draft(replace(REQUEST, target="host-B"), world(), "m1", 1000.0)
    problems = preflight.rows_problems(replace(REQUEST, target="host-B"), record, world())
    assert "the host of that name is chassis 'B'" in problems[0].message


def test_a_port_that_somebody_else_migrates_is_left_alone() -> None:
    seen = world()
    busy = replace(VM, options={"requested-chassis": "A,C"})
    switch = replace(seen.nb.switches[0], ports=(busy,))
    seen = replace(seen, nb=replace(seen.nb, switches=(switch,)))
    assert codes(GATEWAY, seen) == ["port-busy"]
    assert codes(replace(GATEWAY, binding=Binding.EXTERNAL), seen) == []


def test_changed_gateway_rows_stop_it_and_other_drift_does_not() -> None:
    seen = world()
    rows = [
        replace(row, columns={**row.columns, "priority": 99}) if row.role == "gateway:B" else row
        for row in seen.nb.owned
    ]
    assert codes(GATEWAY, replace(seen, nb=replace(seen.nb, owned=tuple(rows)))) == ["gateway-drift"]
    others = tuple(row for row in seen.nb.owned if row.table != "NAT")
    assert codes(GATEWAY, replace(seen, nb=replace(seen.nb, owned=others))) == []


NODE = NodeStatus("B", "1", "6.12", "3.5", 0, 0, 0, 8789)
FIT = Readiness({}, {"A": "up"}, "", 100, 1000)
SOURCE = Readiness({}, {}, "", 0, 0, {"snat:ovnmig-blue": 500, "dnat:ovnmig-blue": 300})


def agent_codes(on_target: AgentView, on_source: AgentView, **changes: object) -> list[str]:
    request = replace(GATEWAY, **changes)  # type: ignore[arg-type]
    record = preflight.draft(request, world(), "m1", 1000.0)
    return [p.code for p in preflight.agent_problems(record, {request.target: on_target, "A": on_source})]


def test_agents_that_answer_well_stop_nothing() -> None:
    assert agent_codes(AgentView(NODE, FIT), AgentView(NODE, SOURCE)) == []


@pytest.mark.parametrize(
    ("target", "source", "expected"),
    [
        (AgentView(problem="refused"), AgentView(NODE, SOURCE), ["agent-unreachable"]),
        (AgentView(NODE, FIT), AgentView(problem="refused"), ["agent-unreachable"]),
        (AgentView(NODE, replace(FIT, uplink="no bridge")), AgentView(NODE, SOURCE), ["uplink-down"]),
        (AgentView(NODE, replace(FIT, bfd={"A": "down"})), AgentView(NODE, SOURCE), ["bfd-down"]),
        (AgentView(NODE, replace(FIT, entries=900)), AgentView(NODE, SOURCE), ["table-full"]),
        (AgentView(NODE, replace(FIT, entries=900, entries_max=0)), AgentView(NODE, SOURCE), []),
    ],
)
def test_what_the_agents_say_against_it_is_named(
    target: AgentView, source: AgentView, expected: list[str]
) -> None:
    assert agent_codes(target, source) == expected


def test_bfd_is_not_asked_of_a_chassis_that_is_no_member_yet() -> None:
    assert agent_codes(AgentView(NODE, replace(FIT, bfd={})), AgentView(NODE, SOURCE), target="C") == []


@pytest.mark.parametrize(
    ("flaps", "grown_at", "awaited"), [({}, 999.0, True), ({"A": 2}, 999.0, False), ({}, 900.0, False)]
)
def test_bfd_that_is_coming_up_is_waited_for_and_any_other_is_refused(
    flaps: dict[str, int], grown_at: float, awaited: bool
) -> None:
    record = preflight.draft(GATEWAY, world(), "m1", 1000.0)
    down = AgentView(NODE, replace(FIT, bfd={"A": "down"}, bfd_flaps=flaps))
    agents = {"B": down, "A": AgentView(NODE, SOURCE)}
    words = preflight.awaited_bfd(record, agents, grown_at)
    problems = [problem.code for problem in preflight.agent_problems(record, agents, grown_at)]
    assert (bool(words), problems) == (awaited, [] if awaited else ["bfd-down"])
    if awaited:
        assert words == "BFD between B and A (it is down, the HA set was made just now)"
        assert f"wait for {words}; roll back if it does not come up in time" in preflight.plan_words(
            record, words
        )


def test_bfd_is_waited_for_by_nobody_who_needs_none_or_has_it() -> None:
    record = preflight.draft(GATEWAY, world(), "m1", 1000.0)
    up, down = AgentView(NODE, FIT), AgentView(NODE, replace(FIT, bfd={"A": "down"}))
    assert preflight.awaited_bfd(record, {"B": up}, 999.0) == ""
    assert preflight.awaited_bfd(record, {"B": AgentView(problem="refused")}, 999.0) == ""
    assert preflight.awaited_bfd(replace(record, moves_gateway=False), {"B": down}, 999.0) == ""
    assert preflight.awaited_bfd(replace(record, target="C"), {"C": down}, 999.0) == ""


@pytest.mark.parametrize(
    ("grown_at", "owner", "source", "moves"),
    [(999.0, "", "A", True), (900.0, "", "", True), (999.0, "B", "B", False)],
)
def test_a_gateway_made_just_now_is_taken_for_its_first_members_until_it_is_claimed(
    grown_at: float, owner: str, source: str, moves: bool
) -> None:
    seen = world(owner=owner)
    seen = replace(seen, document=replace(seen.document, grown_at=grown_at))
    record = preflight.draft(GATEWAY, seen, "m1", 1000.0)
    assert (record.source, record.moves_gateway) == (source, moves)


def test_a_set_without_members_has_no_first_one() -> None:
    seen = world(owner="")
    empty = replace(seen, document=replace(seen.document, members=(), grown_at=999.0))
    assert preflight.draft(GATEWAY, empty, "m1", 1000.0).source == ""


def test_a_gateway_that_stays_needs_no_uplink() -> None:
    bad = AgentView(NODE, replace(FIT, uplink="no bridge", bfd={}))
    assert agent_codes(bad, AgentView(NODE, SOURCE), gateway=False) == []


def test_the_agents_that_must_answer_are_the_targets_and_every_sources() -> None:
    record = preflight.draft(GATEWAY, world(vm="C"), "m1", 1000.0)
    assert preflight.agents_needed(record) == ("B", "A", "C")
    assert preflight.agents_needed(replace(record, transfer=TransferMode.NONE)) == ("B",)


def test_the_plan_says_each_step_in_words() -> None:
    record = preflight.draft(GATEWAY, world(), "m1", 1000.0)
    assert preflight.plan_words(record) == (
        "put B into the gateway's HA set, below A",
        "let B bind port 'vm1' beside A, mute until a RARP",
        "copy the gateway's conntrack zones from A to B and keep them in step",
        "copy the conntrack zone of port 'vm1' from A to B and keep them in step",
        "wait until port 'vm1' is activated or bound on B",
        "make B the gateway in one transaction and announce its addresses there",
        "keep the sessions on both nodes for 60 s, then trim the HA set",
    )
    manual = replace(
        record, moves_gateway=False, trigger=Trigger.MANUAL, binding=Binding.EXTERNAL, overlap_s=1.5
    )
    assert preflight.plan_words(manual) == (
        "copy the conntrack zone of port 'vm1' from A to B and keep them in step",
        "wait for the order to switch",
        "wait 1.5 s, then close the record",
    )
    there = replace(record, arrived=True, source="", port_source="B")
    assert preflight.plan_words(there)[0] == "put B into the gateway's HA set, below the others"
    assert not any("wait until" in line for line in preflight.plan_words(there))
