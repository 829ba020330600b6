from __future__ import annotations

from dataclasses import replace

from ovnmig.core.migration import Binding, MigrationRecord, Phase, TransferMode, Trigger
from ovnmig.core.replication import CopyState, Standby
from ovnmig.core.transfer import Counts
from ovnmig.metrics import Metrics

RECORD = MigrationRecord(
    id="m1", udn="blue", target="b", source="a", port=None, port_source="", moves_gateway=True,
    binding=Binding.EXTERNAL, trigger=Trigger.AUTO, transfer=TransferMode.FULL, overlap_s=60.0,
    phase=Phase.COPYING, created_at=100.0, phase_since=102.0,
    counts=Counts(read=10, created=7, identical=1, replaced=0, lost=0, refused={"port-taken": 2}),
    phase_times=((Phase.REQUESTED, 100.0), (Phase.COPYING, 102.0), (Phase.COMPLETED, 105.0)),
)  # fmt: skip


def lines(metrics: Metrics) -> list[str]:
    return metrics.render().decode().splitlines()


def test_a_migration_is_in_flight_until_it_ends_and_is_counted_once() -> None:
    metrics = Metrics()
    metrics.migration_changed(RECORD)
    assert "ovnmig_migrations_in_flight 1.0" in lines(metrics)
    ended = replace(RECORD, phase=Phase.COMPLETED)
    for _ in range(2):
        metrics.migration_changed(ended)
    now = lines(metrics)
    assert "ovnmig_migrations_in_flight 0.0" in now
    assert 'ovnmig_migrations_total{phase="completed"} 1.0' in now
    assert 'ovnmig_migrations_total{phase="failed"} 0.0' in now
    assert 'ovnmig_entries_total{outcome="read"} 10.0' in now
    assert 'ovnmig_entries_total{outcome="refused"} 2.0' in now
    assert 'ovnmig_entries_refused_total{reason="port-taken"} 2.0' in now
    assert 'ovnmig_phase_seconds_sum{phase="copying"} 3.0' in now


def test_failures_are_counted_by_effect() -> None:
    metrics = Metrics()
    metrics.effect_failed("start-transfer")
    metrics.invariant_broken("a tuple was translated two ways")
    assert 'ovnmig_effect_failures_total{effect="start-transfer"} 1.0' in lines(metrics)
    assert "ovnmig_invariants_broken_total 1.0" in lines(metrics)


def test_two_services_in_one_process_count_apart() -> None:
    first, second = Metrics(), Metrics()
    first.effect_failed("x")
    assert first.render() != second.render()


def test_copies_on_standbys_are_gauges_that_go_with_the_standby() -> None:
    metrics = Metrics()
    metrics.replication_seen("blue", (Standby("b", CopyState.IN_STEP, 3, 99.5, 2, 1, 4),))
    now = lines(metrics)
    for name, value in (
        ("in_step", 1.0),
        ("pending", 3.0),
        ("refused", 2.0),
        ("lost", 1.0),
        ("put_back", 4.0),
    ):
        assert f'ovnmig_replication_{name}{{chassis="b",udn="blue"}} {value}' in now
    assert 'ovnmig_replication_synced_timestamp_seconds{chassis="b",udn="blue"} 99.5' in now
    metrics.replication_seen("blue", (Standby("c", CopyState.CONNECTING),))
    now = lines(metrics)
    assert 'ovnmig_replication_in_step{chassis="c",udn="blue"} 0.0' in now
    assert not [line for line in now if 'chassis="b"' in line]
    metrics.failed_over("blue")
    assert 'ovnmig_replication_failovers_total{udn="blue"} 1.0' in lines(metrics)


def test_orders_left_behind_are_counted_by_kind() -> None:
    metrics = Metrics()
    metrics.orphan_ended("transfer")
    assert 'ovnmig_orphans_ended_total{kind="transfer"} 1.0' in lines(metrics)
