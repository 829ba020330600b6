from __future__ import annotations

import pytest

from devenv.demo.gapcount import Way, duplicates, longest_ms, lost, row, silent, ways

SENT = [100 + n / 100 for n in range(3000)]


def way(*holes: tuple[float, float]) -> Way:
    """One session with a packet each 10 ms from 100 s to 130 s; those sent in a hole are lost."""
    got = [(n, t) for n, t in enumerate(SENT) if not any(a < t < b for a, b in holes)]
    return Way({0: SENT}, {0: got})


def test_a_gap_is_the_longest_time_without_an_arrival_after_the_order() -> None:
    assert longest_ms(way((112.004, 112.496)), 0, 110.0) == pytest.approx(500, abs=0.1)
    assert longest_ms(way(), 0, 110.0) == pytest.approx(10, abs=0.1)


def test_silence_to_the_end_of_the_window_is_a_gap_and_what_was_before_the_order_is_none() -> None:
    assert longest_ms(way((111.004, 130)), 0, 110.0) == pytest.approx(4000, abs=0.1)
    assert longest_ms(way((109.2, 109.8)), 0, 110.0) == pytest.approx(10, abs=0.1)


def test_a_session_never_heard_is_a_gap_as_long_as_the_window() -> None:
    assert longest_ms(Way({0: SENT}, {}), 0, 110.0) == 5000


def test_lost_packets_are_counted_by_number_where_they_left() -> None:
    assert lost(way((112.004, 112.496)), 110.0, 115.0) == 49
    assert lost(way((112.004, 112.496)), 115.0, 120.0) == 0


def test_a_packet_that_comes_twice_is_a_duplicate() -> None:
    assert duplicates(Way({0: SENT}, {0: [(0, 100.0), (1, 100.1), (0, 100.2)]})) == 1


def test_a_session_of_which_nothing_comes_is_silent() -> None:
    assert silent(way((111.0, 130)), 112.0, 114.0) == 1
    assert silent(way(), 112.0, 114.0) == 0


def test_a_row_tells_the_moves_gaps_beside_the_baseline() -> None:
    told = row(way((112.004, 112.496)), 1, (100.0, 110.0), [111.0, 118.0])
    assert (told["moves"], told["sessions"], told["sessions_lost"]) == (2, 1, 0)
    assert told["baseline_p99_ms"] == pytest.approx(10, abs=0.1)
    assert told["gap_max_ms"] == pytest.approx(500, abs=0.1)
    assert told["packets_lost"] == 49
    assert told["baseline_packets_lost"] == 0


def test_out_goes_from_the_client_to_the_server() -> None:
    client = {"sent": {"0": [1.0]}, "got": {"0": [[7, 4.0]]}}
    server = {"sent": {"0": [3.0]}, "got": {"0": [[0, 2.0]]}}
    both = ways(client, server)
    assert both["out"] == Way({0: [1.0]}, {0: [(0, 2.0)]})
    assert both["in"] == Way({0: [3.0]}, {0: [(7, 4.0)]})
