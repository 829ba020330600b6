"""The gateway moved by hand, and a gateway that stays while its VM moves."""

from __future__ import annotations

from tests.sandbox.cluster import Cluster
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import A, B, World


def test_a_gateway_moved_by_hand_keeps_every_session(world: World) -> None:
    rest = world.cluster.rest
    world.create(policy="pinned")
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, pair_sessions(*world.vms)) as traffic:
        with traffic.move():
            started = rest.call("PUT", f"{world.path}/gateway", {"target": B, "overlap_s": 1})
            assert started.status == 202, started.body
            done = rest.reached(started.body["id"], {"completed"})
        assert (done["port"], done["moves_gateway"]) == (None, True)
        gateway = rest.ok("GET", f"{world.path}/gateway")
        assert (gateway["owner"], gateway["protected"]) == (B, True)
        assert gateway["members"][0]["chassis"] == B
        assert A in {member["chassis"] for member in gateway["members"]}, "the former owner stays as standby"
        traffic.assert_all_survived()


def test_a_pinned_gateway_stays_when_its_vm_moves(world: World) -> None:
    world.create(policy="pinned")
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, pair_sessions(*world.vms)) as traffic:
        with traffic.move():
            done = world.migrate(world.vms[0], A, B)
        assert done["moves_gateway"] is False
        assert done["nb_transactions"] <= 3
        assert world.owner() == A
        traffic.assert_all_survived()


def test_the_command_line_moves_a_gateway_and_waits(world: World) -> None:
    world.create(policy="pinned")
    world.settle()
    done = world.cluster.ovnmig("gateway", "move", world.name, B, "--overlap-s", "0", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    assert world.owner() == B
    shown = world.cluster.ovnmig("gateway", "show", world.name)
    assert (shown.returncode, B in shown.stdout) == (0, True)


def test_moving_a_gateway_to_where_it_is_is_refused(world: World) -> None:
    world.create()
    world.settle()
    answer = world.cluster.rest.call("PUT", f"{world.path}/gateway", {"target": A})
    assert answer.status == 409
    assert "already-there" in answer.codes()


def test_an_unknown_chassis_is_refused_with_the_known_ones(world: World) -> None:
    world.create()
    world.settle()
    answer = world.cluster.rest.call("PUT", f"{world.path}/gateway", {"target": "nobody"})
    assert answer.status == 422
    assert A in answer.body["problems"][0]["message"]


def test_doctor_finds_nothing_on_a_fit_cluster(trixie: Cluster) -> None:
    done = trixie.ovnmig("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
