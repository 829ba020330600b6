from __future__ import annotations

from pathlib import Path

import pytest

from ovnmig.core import diagram
from ovnmig.core.states import State
from ovnmig.core.transitions import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "design" / "move.md"


def test_the_page_shows_the_table_as_it_is() -> None:
    """Draw it anew with tools/diagram."""
    text = PAGE.read_text(encoding="utf-8")
    assert diagram.replaced(text) == text


def test_every_state_stands_in_the_diagram_and_every_row_in_the_table() -> None:
    drawn = diagram.mermaid()
    assert all(state.value.replace("-", "_") in drawn for state in State)
    assert len(diagram.table().splitlines()) == len(ROWS) + 2


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no diagram markers"):
        diagram.replaced("nothing here")
    with pytest.raises(ValueError, match="no diagram markers"):
        diagram.replaced(diagram.BEGIN)
