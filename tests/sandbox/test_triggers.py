"""What starts the switch: the VM's arrival, whoever binds it, or an operator's order."""

from __future__ import annotations

import time

from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import A, B, World


def test_a_vm_that_the_cms_rebinds_triggers_the_switch(world: World) -> None:
    vm, rest = world.vms[0], world.cluster.rest
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, pair_sessions(*world.vms)) as traffic:
        with traffic.move():
            migration = world.start_migration(vm, B, binding="external", trigger="auto")
            rest.reached(migration, {"ready"})
            assert world.owner() == A, "the gateway waits for its VM"
            world.move_vm(vm, A, B, binding="requested")
            done = rest.reached(migration, {"completed"})
        assert done["arrived"] is True
        assert world.owner() == B
        traffic.assert_all_survived()
    requested = world.cluster.nbctl("get", "Logical_Switch_Port", vm, "options:requested-chassis")
    assert requested.strip().strip('"') == B, "what the CMS wrote is left alone"


def test_a_manual_trigger_waits_for_the_order(world: World) -> None:
    vm, rest = world.vms[0], world.cluster.rest
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, pair_sessions(*world.vms)) as traffic:
        with traffic.move():
            migration = world.start_migration(vm, B, trigger="manual")
            world.arrive(migration, vm, A, B)
            rest.wait(
                "the arrival seen", f"/v1/migrations/{migration}", lambda answer: bool(answer["arrived"])
            )
            rest.reached(migration, {"ready"})
            time.sleep(2)
            assert rest.ok("GET", f"/v1/migrations/{migration}")["phase"] == "ready"
            assert world.owner() == A
            world.order_switch(migration)
            rest.reached(migration, {"converging", "completed"}, 15)
            world.wait_owner(B)
            again = rest.call("POST", f"/v1/migrations/{migration}/switch")
            assert again.status in (202, 409), "repeating the order is harmless"
            rest.reached(migration, {"completed"})
        traffic.assert_all_survived()


def test_the_command_line_starts_and_follows_a_migration(world: World) -> None:
    vm, cluster = world.vms[0], world.cluster
    world.create(anchor=vm)
    world.settle()
    world.wait_reachable()
    words = ["migrate", "start", world.name, B, "--port", vm, "--binding", "ovnmig", "--overlap-s", "0"]
    started = cluster.ovnmig(*words, "--wait", "--until", "ready")
    assert started.returncode == 0, started.stderr
    migration = world.udn()["migration"]
    assert migration in cluster.ovnmig("migrate", "list").stdout
    cluster.tool("vm", "plug", vm, B)
    cluster.tool("vm", "wait", vm, B)
    world.move_vm(vm, A, B)
    waited = cluster.ovnmig("migrate", "wait", migration, "--timeout-s", "60")
    assert waited.returncode == 0, waited.stderr
    shown = cluster.ovnmig("migrate", "show", migration)
    assert (shown.returncode, "completed" in shown.stdout) == (0, True)
