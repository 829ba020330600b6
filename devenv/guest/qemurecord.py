"""What is written down about a real VM's moves, and when its own clock's times were."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from devenv.guest.paths import run_dir
from devenv.guest.vmrecord import tap_name


@dataclass(frozen=True, slots=True)
class Moved:
    """One live migration. Times are Unix seconds of the machine; an offset is what to add to the VM's clock.

    `guest_pause_ms` is the downtime that QEMU tells of.
    """

    source: str
    target: str
    stopped_s: float
    resumed_s: float
    guest_pause_ms: int
    total_ms: int
    offset_before_s: float
    offset_after_s: float


def folder(name: str) -> Path:
    """Everything of one real VM. A short path, whatever the VM's name: sockets are in it."""
    return run_dir() / "qemu" / tap_name(name)


def _file(name: str) -> Path:
    return folder(name) / "moves.json"


def moves(name: str) -> list[Moved]:
    """The VM's moves so far, in order."""
    try:
        return [Moved(**one) for one in json.loads(_file(name).read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []


def add_move(name: str, moved: Moved) -> None:
    """Writes down one more move."""
    everything = [asdict(one) for one in [*moves(name), moved]]
    draft = _file(name).with_suffix(".draft")
    draft.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    draft.replace(_file(name))


def machine_times(guest_s: Iterable[float], done: Sequence[Moved], offset_s: float) -> Iterator[float]:
    """When times of the VM's clock were, in Unix seconds of the machine; `offset_s` counts without any move.

    The VM's clock stands still while it is paused, so there is one offset before each move and one after.
    """
    for guest in guest_s:
        for one in done:
            if guest + one.offset_before_s <= one.stopped_s:
                yield guest + one.offset_before_s
                break
        else:
            yield guest + (done[-1].offset_after_s if done else offset_s)
