from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.stories.teller import Teller

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


def test_there_are_stories() -> None:
    assert len(STORIES) >= 10


def settle(path: Path, told: str) -> str:
    """The script to compare with: what is written down, or, when rewriting, what was just told."""
    if os.environ.get("OVNMIG_REWRITE"):
        path.write_text(told, encoding="utf-8")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_was_told(path: Path) -> None:
    """Rewrite with OVNMIG_REWRITE=1; commit the change only if you understand what caused it."""
    told = asyncio.run(Teller().run(path.read_text(encoding="utf-8")))
    assert told == settle(path, told)
