"""What a request may meet: a dry run, a migration in flight, one that ends its overlap, a dead agent."""

from __future__ import annotations

import json

import pytest

from tests.sandbox import database
from tests.sandbox.phases import held
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import A, B, C, World


@pytest.fixture
def owned(world: World) -> World:
    """A world with its gateway on the first chassis, where its VMs are."""
    world.create(anchor=world.vms[0])
    world.settle()
    return world


def request(world: World, **changes: object) -> dict[str, object]:
    body = {"udn": world.name, "port": world.vms[0], "target": B, "binding": "ovnmig", "trigger": "manual"}
    return body | changes


def test_a_migration_asked_for_in_the_instant_its_udn_exists_is_accepted_and_completes(world: World) -> None:
    vm, rest = world.vms[0], world.cluster.rest
    world.create(anchor=vm)
    migration = world.start_migration(vm, B, overlap_s=0)
    assert rest.call("GET", f"/v1/migrations/{migration}").body["source"] == A
    world.arrive(migration, vm, A, B)
    done = rest.reached(migration, {"completed"})
    assert (done["source"], done["reason"], world.owner()) == (A, "", B)
    world.wait_reachable()


def test_a_dry_run_tells_the_plan_and_touches_nothing(owned: World) -> None:
    before = database.dump(owned.cluster)
    answer = owned.cluster.rest.call("POST", "/v1/migrations?dry_run=true", request(owned))
    assert answer.status == 200
    assert answer.body["possible"] is True
    assert any(B in line for line in answer.body["plan"])
    assert database.differences(before, database.dump(owned.cluster)) == []


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"target": "nobody"}, 422, "unknown-chassis"),
        ({"port": "no-such-port"}, 422, "unknown-port"),
        ({"target": A}, 409, "already-there"),
        ({"udn": "no-such-udn"}, 404, None),
    ],
    ids=["unknown-chassis", "unknown-port", "already-there", "unknown-udn"],
)
def test_a_request_that_cannot_be_met_names_the_problem_and_touches_nothing(
    owned: World, changes: dict[str, object], status: int, code: str | None
) -> None:
    rest = owned.cluster.rest
    before = database.dump(owned.cluster)
    answer = rest.call("POST", "/v1/migrations", request(owned, **changes))
    assert answer.status == status, answer.body
    assert answer.body["detail"]
    if code is not None:
        assert code in answer.codes()
        dry = rest.call("POST", "/v1/migrations?dry_run=true", request(owned, **changes))
        assert (dry.status, dry.body["possible"]) == (200, False)
        assert code in {problem["code"] for problem in dry.body["problems"]}
    assert database.differences(before, database.dump(owned.cluster)) == []


def test_a_second_migration_in_flight_is_refused_and_a_repeated_one_is_the_same(owned: World) -> None:
    rest = owned.cluster.rest
    key = {"Idempotency-Key": f"key-of-{owned.name}"}
    first = rest.call("POST", "/v1/migrations", request(owned), headers=key)
    assert first.status == 202
    again = rest.call("POST", "/v1/migrations", request(owned), headers=key)
    assert (again.status, again.body["id"]) == (202, first.body["id"])
    other = rest.call("POST", "/v1/migrations", request(owned, target=C))
    assert other.status == 409
    assert first.body["id"] in str(other.body), "the answer names the migration in flight"
    rest.call("DELETE", f"/v1/migrations/{first.body['id']}")
    rest.reached(first.body["id"], {"rolled-back"})
    after = rest.call("POST", "/v1/migrations", request(owned), headers=key)
    assert after.body["id"] == first.body["id"], "the key still names the migration it started"


def test_a_new_migration_ends_the_overlap_of_the_one_before(owned: World) -> None:
    vm, rest = owned.vms[0], owned.cluster.rest
    owned.wait_reachable()
    with playing(owned.cluster, pair_sessions(*owned.vms)) as traffic:
        with traffic.move():
            first = owned.start_migration(vm, B, overlap_s=300)
            owned.arrive(first, vm, A, B)
            rest.reached(first, {"converging"})
        traffic.pause()
        with traffic.move():
            second = owned.start_migration(vm, A, overlap_s=1)
            assert rest.reached(first, {"completed"}, 10)["reason"] is not None
            owned.arrive(second, vm, B, A)
            rest.reached(second, {"completed"})
        assert owned.owner() == A
        traffic.assert_all_survived()


def test_events_tell_a_migration_from_its_request_to_its_end(owned: World) -> None:
    vm, cluster = owned.vms[0], owned.cluster
    migration = owned.start_migration(vm, B, overlap_s=0)
    owned.arrive(migration, vm, A, B)
    cluster.rest.reached(migration, {"completed"})
    told = cluster.ovnmig("watch", "--after", "0", "--no-follow", "--migration", migration, "--json")
    assert told.returncode == 0, told.stderr
    events = [json.loads(line) for line in told.stdout.splitlines()]
    phases = [event["message"].partition(":")[0] for event in events if event["kind"] == "phase"]
    wanted = ["preparing", "copying", "ready", "switching", "converging", "completed"]
    assert list(dict.fromkeys(phases)) == wanted, phases


def test_a_target_whose_agent_is_down_is_refused_by_name(owned: World) -> None:
    cluster = owned.cluster
    cluster.service("kill", B)
    try:
        before = database.dump(cluster)
        answer = cluster.rest.call("POST", "/v1/migrations", request(owned))
        assert answer.status == 409
        assert "agent-unreachable" in answer.codes()
        assert f"the agent of {B} does not answer" in str(answer.body)
        assert database.differences(before, database.dump(cluster)) == []
        nodes = {node["chassis"]: node for node in cluster.rest.ok("GET", "/v1/nodes")["nodes"]}
        assert [name for name, node in nodes.items() if not node["agent_up"]] == [B]
        assert nodes[B]["agent_problem"]
    finally:
        cluster.service("start", B)
        cluster.ready()


def test_a_target_agent_that_dies_while_copying_rolls_the_migration_back(owned: World) -> None:
    vm, cluster = owned.vms[0], owned.cluster
    owned.wait_reachable()
    with playing(cluster, pair_sessions(*owned.vms)) as traffic:
        with traffic.move():
            with held(cluster, "copying", B):
                migration = owned.start_migration(vm, B)
                cluster.rest.reached(migration, {"copying"})
                cluster.service("kill", B)
                done = cluster.rest.reached(migration, {"rolled-back"}, 60)
            assert B in done["reason"]
        assert owned.owner() == A
        cluster.service("start", B)
        cluster.ready()
        traffic.assert_all_survived()
