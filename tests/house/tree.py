"""The tracked files of the repository, for the tests that read them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked(pattern: str = "*") -> tuple[str, ...]:
    """Paths relative to ROOT that git tracks and that exist, by a git pathspec ("*" also matches "/")."""
    # The integration machine's clone may belong to somebody else than the user who runs the tests.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", pattern]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(name for name in names if name and (ROOT / name).is_file())


def text(path: str) -> str:
    """The file's content, or nothing for a file that is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
