from __future__ import annotations

from typing import Any

from ovnmig.cli.diagnosis import Finding, diagnose
from ovnmig.service import examples

READY = {"ready": True, "role": "leader", "problems": []}
NODES = [examples.NODE, examples.NODE | {"chassis": "chassis-2"}]
UDN = examples.UDN
MIGRATION = examples.MIGRATION | {"warnings": [], "phase": "completed"}


def look(**changes: Any) -> list[Finding]:
    """Diagnose a healthy cluster with some documents replaced."""
    healthy: dict[str, Any] = {"ready": READY, "udns": [UDN], "nodes": NODES, "migrations": [MIGRATION]}
    return diagnose(**healthy | changes)


def codes(**changes: Any) -> list[str]:
    return [f.code for f in look(**changes)]


def test_a_healthy_cluster_has_no_findings() -> None:
    assert look() == []


def test_a_service_that_is_not_ready_is_the_only_thing_worth_saying() -> None:
    found = look(ready={"ready": False, "role": "leader", "problems": ["NB: stale"]}, nodes=[])
    assert [f.what for f in found] == ["the service is not well: NB: stale"]
    assert codes(ready={"ready": False, "role": "leader", "problems": []}) == ["service"]


def test_a_standby_is_worth_a_note_but_no_problem() -> None:
    (finding,) = look(ready=READY | {"role": "standby"})
    assert (finding.code, finding.problem) == ("standby", False)


def test_no_chassis_at_all() -> None:
    assert "no-chassis" in codes(nodes=[], udns=[])


def test_a_chassis_without_agent_and_one_whose_agent_complains() -> None:
    silent = NODES[0] | {"agent_up": False, "agent_problem": "connection refused"}
    unwell = NODES[1] | {"agent_problems": ["bridge br-ex is down", "nf_conntrack is not loaded"]}
    found = look(nodes=[silent, unwell])
    assert [f.code for f in found] == ["no-agent", "agent-problem", "agent-problem"]
    assert "connection refused" in found[0].what
    assert "br-ex" in found[1].what


def test_a_conntrack_table_nearly_full() -> None:
    full = NODES[1] | {"agent_entries": 900, "agent_entries_max": 1000}
    assert codes(nodes=[NODES[0], full]) == ["table-full"]
    assert codes(nodes=[NODES[0], full | {"agent_entries": 800}]) == []


def test_agents_of_two_versions_are_a_note() -> None:
    (finding,) = look(nodes=[NODES[0], NODES[1] | {"agent_version": "0.2.0"}])
    assert (finding.code, finding.problem) == ("versions", False)


def test_a_physical_network_that_nobody_maps() -> None:
    assert "no-uplink" in codes(udns=[UDN | {"physical_network": "other", "owner": ""}])


def test_a_gateway_that_nobody_has_claimed() -> None:
    assert codes(udns=[UDN | {"owner": ""}]) == ["unclaimed"]


def test_a_member_that_is_gone_or_lost_its_mapping() -> None:
    found = look(nodes=[NODES[0], NODES[1] | {"physical_networks": []}])
    assert [f.code for f in found] == ["member-uplink"]
    assert "chassis-2" in found[0].what


def test_a_lone_gateway_is_unprotected_and_told_who_could_stand_by() -> None:
    lone = UDN | {"protected": False, "members": UDN["members"][:1]}
    (finding,) = look(udns=[lone])
    assert finding.code == "unprotected"
    assert "chassis-2 could stand by" in finding.advice
    (alone,) = look(udns=[lone], nodes=NODES[:1])
    assert "second chassis" in alone.advice


def test_every_difference_of_drift_is_told() -> None:
    found = look(udns=[UDN | {"drift": ["nat row is missing", "mac differs"]}])
    assert [f.code for f in found] == ["drift", "drift"]


def test_a_failed_migration_needs_a_person_until_a_later_one_went_well() -> None:
    failed = MIGRATION | {
        "id": "m1",
        "phase": "failed",
        "reason": "target died",
        "created_at": "2026-01-01T00:00:00Z",
    }
    assert codes(migrations=[failed]) == ["migration-failed"]
    assert codes(migrations=[MIGRATION, failed]) == []


def test_warnings_of_the_last_migration_are_notes() -> None:
    (finding,) = look(migrations=[MIGRATION | {"warnings": ["2 entries were lost"]}])
    assert (finding.code, finding.problem) == ("migration-warning", False)
    assert finding.document()["what"].endswith("2 entries were lost")
