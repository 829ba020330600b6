from __future__ import annotations

from devenv.demo.capture import ICMP, RST, TCP, Packet
from devenv.demo.judge import Move, Record, gaps, percentile, stall_ms, survived, wire_counts
from devenv.demo.plan import RUNS, Session, expectation, sessions

MOVE = Move(20.0, 21.0)


def every(step: float, since: float, until: float) -> list[float]:
    count = int((until - since) / step)
    return [since + step * n for n in range(count + 1)]


def record(kind: str = "request", **changes: object) -> Record:
    made = Record(
        Session(f"vm1-{kind}-v4", kind, 4, "vm1"),
        to_vm=every(0.1, 10.0, 40.0),
        to_server=every(0.1, 10.0, 40.0),
        opened=10.0,
        settled=10.0,
        planned_end=40.0,
        ended=True,
        vm_address="10.0.0.5",
        vm_port=4000,
        accepted=("172.16.1.100:4000",),
    )
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def test_a_session_with_data_to_the_end_survived() -> None:
    assert survived(record(), [MOVE]) == ""


def test_a_session_whose_data_comes_back_after_more_than_ten_seconds_died() -> None:
    late = [t for t in every(0.1, 10, 40) if not 20 < t < 31.5]
    assert "within 10 s of move 1" in survived(record(to_vm=late), [MOVE])


def test_only_the_main_direction_counts_for_a_download() -> None:
    assert survived(record("download", to_server=[], checksum_right=True), [MOVE]) == ""
    assert survived(record("request", to_server=[]), [MOVE]) != ""


def test_every_move_must_be_survived_not_only_the_last() -> None:
    hole = [t for t in every(0.1, 10, 40) if not 20 < t < 31.5]
    assert "move 1" in survived(record(to_vm=hole), [MOVE, Move(33.0, 34.0)])


def test_a_wrong_checksum_or_an_unplanned_end_is_a_death() -> None:
    assert "checksum" in survived(record("download", checksum_right=False), [MOVE])
    assert "planned end" in survived(record(ended=False), [MOVE])
    assert survived(record(error="ConnectionResetError"), [MOVE]) == "ConnectionResetError"


def test_udp_needs_a_reply_in_each_second_from_the_second_after_the_move() -> None:
    times = [t for t in every(0.02, 10, 40) if not 30.0 <= t < 32.0]
    assert "no datagram" in survived(record("udp", to_vm=times), [MOVE])
    in_first_second = [t for t in every(0.02, 10, 40) if not 21.0 <= t < 21.9]
    assert survived(record("udp", to_vm=in_first_second), [MOVE]) == ""


def test_a_gap_while_the_next_move_is_made_is_not_held_against_the_one_before() -> None:
    times = [t for t in every(0.02, 10, 40) if not 30.0 <= t < 31.9]
    assert survived(record("udp", to_vm=times), [MOVE, Move(29.5, 32.0)]) == ""


def test_stall_is_the_longest_gap_around_the_move_less_the_usual_one() -> None:
    stalled = [t for t in every(0.1, 10, 40) if not 20.15 < t < 20.65]
    assert 380 <= stall_ms(record(to_vm=stalled), [MOVE]) <= 520
    assert stall_ms(record(), [MOVE]) < 1.0


def test_a_silence_that_never_ends_is_a_gap_to_the_end() -> None:
    assert gaps([1.0, 2.0], 1.5, 9.0) == [(1.0, 1.0), (2.0, 7.0)]
    assert percentile([], 0.99) == 0.0


def tcp(source: str, port: int, *, seq: int = 1, flags: int = 16, at: float = 15.0, to: int = 7002) -> Packet:
    return Packet(at, source, "172.16.1.50", TCP, port, to, seq, 7, flags)


def test_a_flow_whose_translation_changes_on_the_way_is_found_by_its_sequence_numbers() -> None:
    r = record()
    wire_counts(
        [r],
        [tcp("10.0.0.5", 4000, seq=99)],
        [tcp("172.16.1.100", 4000), tcp("172.16.1.100", 6123, seq=99)],
        [],
    )
    assert r.server_saw == ["172.16.1.100:4000", "172.16.1.100:6123"]


def test_resets_count_only_between_start_and_planned_end_of_a_recorded_session() -> None:
    r = record()
    reset = [
        tcp("172.16.1.100", 4000, flags=RST),
        tcp("172.16.1.100", 4000, flags=RST, at=41.0),
        tcp("9.9.9.9", 1, flags=RST),
    ]
    assert wire_counts([r], [], reset, []).rst == 1


def test_an_unreachable_is_matched_by_the_packet_it_quotes() -> None:
    r = record()
    error = Packet(15.0, "172.16.1.1", "172.16.1.100", ICMP, icmp_type=3, quoted=tcp("172.16.1.100", 4000))
    assert wire_counts([r], [], [error], []).unreachable == 1


def test_a_private_source_on_the_provider_network_is_counted_whoever_sent_it() -> None:
    assert wire_counts([record()], [], [tcp("10.0.0.77", 1)], ["10.0.0.0/24"]).private_source == 1


def test_the_controls_demand_deaths_and_the_others_none() -> None:
    by_name = {run.name: run for run in RUNS}
    for session in sessions():
        assert expectation(by_name["transfer"], session, translated=True) == "survive"
        assert expectation(by_name["no-transfer"], session, translated=True) == "die"
        assert expectation(by_name["no-transfer"], session, translated=False) == "either"
        assert expectation(by_name["node-address"], session, translated=False) == (
            "either" if session.kind == "udp" else "die"
        )
