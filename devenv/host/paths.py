"""Where things are: the repository, the cache, the state of running sandboxes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from devenv.host.errors import EXIT_USAGE, SandboxError

REPO = Path(__file__).resolve().parents[2]
OUT = REPO / "out"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")


def cache_dir() -> Path:
    """The folder of everything that outlives a sandbox (XDG_CACHE_HOME is respected)."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "ovnmig"


def runs_dir() -> Path:
    """The folder that holds one folder per running sandbox."""
    return cache_dir() / "run"


def run_dir(name: str) -> Path:
    """The folder of one running sandbox; raises SandboxError for a name that cannot be a folder's."""
    if not _NAME.fullmatch(name):
        raise SandboxError(
            f"'{name}' cannot be the name of a sandbox",
            hint="use letters, digits, '.', '_' and '-', at most 41 of them, the first a letter or digit",
            code=EXIT_USAGE,
        )
    return runs_dir() / name
