"""The cache of built images: each is a folder named by the hash of what it is made from.

An image is built in a folder of its own and renamed into place when it is complete, so whatever has its final
name is whole. A lock per kind keeps two builders apart; what an interrupted build left is removed under it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from devenv.host.errors import SandboxError

RECIPE_NAME = "recipe.json"


def content_key(inputs: Mapping[str, str]) -> str:
    """Returns the name part that changes whenever one of the inputs does."""
    text = json.dumps(dict(inputs), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """Images under one folder: `images/KIND-KEY`, half-made ones under `building/`."""

    def __init__(self, root: Path) -> None:
        self._images = root / "images"
        self._building = root / "building"
        self._locks = root / "locks"

    def find(self, kind: str, inputs: Mapping[str, str]) -> Path | None:
        """Returns the image made from these inputs, None when there is none."""
        path = self._images / f"{kind}-{content_key(inputs)}"
        return path if (path / RECIPE_NAME).is_file() else None

    def obtain(self, kind: str, inputs: Mapping[str, str], build: Callable[[Path], None]) -> Path:
        """Returns the image made from these inputs; `build` fills an empty folder when it is missing."""
        if found := self.find(kind, inputs):
            return found
        name = f"{kind}-{content_key(inputs)}"
        for folder in (self._images, self._building):
            folder.mkdir(parents=True, exist_ok=True)
        with self.locked(kind):
            if found := self.find(kind, inputs):
                return found
            for stale in self._building.glob(f"{kind}-*"):
                remove_tree(stale)
            draft = self._building / name
            draft.mkdir()
            try:
                build(draft)
                (draft / RECIPE_NAME).write_text(json.dumps(dict(inputs), indent=1, sort_keys=True) + "\n")
                os.sync()
                remove_tree(self._images / name)
                draft.rename(self._images / name)
            finally:
                remove_tree(draft)
        return self._images / name

    @contextlib.contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Holds the lock of one kind of image; waits for another builder."""
        self._locks.mkdir(parents=True, exist_ok=True)
        with open(self._locks / f"{what}.lock", "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def remove_tree(path: Path) -> None:
    """Removes a folder if it is there; refuses one that something is still mounted in."""
    if not path.exists():
        return
    inside = os.path.realpath(path) + "/"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        mounted = line.split()[1].encode().decode("unicode_escape")
        if mounted.startswith(inside):
            raise SandboxError(f"{mounted} is still mounted", hint=f"umount {mounted}, then try again")
    shutil.rmtree(path)
