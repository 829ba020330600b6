"""The promise: sessions live on when their VM and its gateway migrate; without the transfer they die."""

from __future__ import annotations

from typing import Any

from devenv.demo.judge import Record
from tests.sandbox.traffic import Traffic, pair_sessions, playing
from tests.sandbox.world import A, B, C, World


def assert_counts_add_up(done: dict[str, Any], at_least: int) -> None:
    """Every entry that was read is accounted for."""
    counts = done["counts"]
    parts = ("created", "identical", "replaced", "refused", "lost")
    assert counts["read"] == sum(counts[part] for part in parts), counts
    assert counts["read"] >= at_least, counts
    assert (counts["refused"], counts["lost"]) == (0, 0), counts


def assert_translated_sessions(records: dict[str, Record], vm: str) -> None:
    """What proves a transfer: sessions whose port OVN had to translate."""
    translated = {name for name, record in records.items() if record.translated}
    wanted = {f"{vm}-{kind}-v{family}" for kind in ("twin", "push") for family in (4, 6)}
    assert wanted <= translated, f"translated: {translated}"


def leg(traffic: Traffic, world: World, source: str, target: str, **options: object) -> dict[str, Any]:
    """The first VM, and its gateway with it, moves during traffic."""
    with traffic.move():
        done: dict[str, Any] = world.migrate(world.vms[0], source, target, **options)
    assert done["nb_transactions"] <= 3
    assert world.owner() == target
    return done


def test_sessions_survive_a_full_circle(each_world: World) -> None:
    world, sessions = each_world, pair_sessions(*each_world.vms)
    world.create(anchor=world.vms[0])
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, sessions, wire=world.subnets) as traffic:
        assert_counts_add_up(leg(traffic, world, A, B), len(sessions))
        traffic.pause()
        assert_counts_add_up(leg(traffic, world, B, A), len(sessions))
        records = traffic.assert_all_survived()
        traffic.assert_clean_wire()
    assert_translated_sessions(records, world.vms[1])


def test_without_the_transfer_translated_sessions_die(each_world: World) -> None:
    world, sessions = each_world, pair_sessions(*each_world.vms)
    world.create(anchor=world.vms[0])
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, sessions) as traffic:
        done = leg(traffic, world, A, B, transfer="none")
        assert done["warnings"]
        records = traffic.finish(after_s=6)
    assert_translated_sessions(records, world.vms[1])
    fates = traffic.fates(records)
    alive = [name for name, record in records.items() if record.translated and not fates[name]]
    assert not alive, f"they lived without their entries, so their survival proves nothing: {alive}"


def test_sessions_survive_without_a_common_snat_zone(bookworm_world: World) -> None:
    world, sessions = bookworm_world, pair_sessions(*bookworm_world.vms)
    made = world.create(anchor=world.vms[0], snat_zone="off")
    assert made["snat_zone"] is None
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, sessions) as traffic:
        leg(traffic, world, A, B)
        traffic.pause()
        leg(traffic, world, B, A)
        records = traffic.assert_all_survived()
    assert_translated_sessions(records, world.vms[1])


def test_sessions_survive_a_round_over_three_chassis(world: World) -> None:
    sessions = pair_sessions(*world.vms)
    world.create(anchor=world.vms[0])
    world.settle()
    world.wait_reachable()
    with playing(world.cluster, sessions, wire=world.subnets) as traffic:
        for source, target in ((A, B), (B, C), (C, A)):
            assert_counts_add_up(leg(traffic, world, source, target), len(sessions))
            traffic.pause()
        records = traffic.assert_all_survived()
        traffic.assert_clean_wire()
    assert_translated_sessions(records, world.vms[1])


def test_two_udns_migrate_side_by_side(world: World, other_world: World) -> None:
    both = (world, other_world)
    for each in both:
        each.create(anchor=each.vms[0])
    for each in both:
        each.settle()
        each.wait_reachable()
    sessions = [s for each in both for s in pair_sessions(*each.vms)]
    with playing(world.cluster, sessions) as traffic:
        with traffic.move():
            ids = [each.start_migration(each.vms[0], B) for each in both]
            for each, migration in zip(both, ids, strict=True):
                each.arrive(migration, each.vms[0], A, B)
            for migration in ids:
                world.cluster.rest.reached(migration, {"completed"})
        traffic.assert_all_survived()
