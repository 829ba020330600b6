"""The kernel's switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from ovnmig.conntrack.stats import table_stats


def test_this_machine_tells_how_full_its_table_is() -> None:
    stats = table_stats()
    assert 0 <= stats.count <= stats.max
    assert stats.room == stats.max - stats.count
    assert stats.events in (0, 1, 2)


def test_a_table_above_its_limit_has_no_room(tmp_path: Path) -> None:
    (tmp_path / "nf_conntrack_count").write_text("12\n")
    (tmp_path / "nf_conntrack_max").write_text("10\n")
    stats = table_stats(tmp_path)
    assert (stats.room, stats.events, stats.be_liberal, stats.loose) == (0, None, None, None)


def test_a_kernel_without_connection_tracking_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        table_stats(tmp_path)
