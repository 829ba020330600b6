"""What a soak does: which way each move goes, what is broken during it, and when the source is torn down."""

from __future__ import annotations

from dataclasses import dataclass

FAULTS = (
    "none",
    "target-ovn-controller-restarts",
    "cancelled-in-preparing",
    "owner-ovn-controller-restarts",
    "vm-arrives-late",
    "cancelled-in-copying",
    "new-owner-ovn-controller-restarts",
    "cancelled-in-ready",
    "vm-never-arrives",
    "foreign-flips",
    "cancelled-in-switching",
    "agents-killed",
    "cancelled-in-converging",
    "service-killed",
)
"""One for each move, over and over. A cancelled migration is followed by one that is not."""

TEARDOWNS_S = (0.0, 0.05, 0.5, 0.0, 0.05, 0.5, 0.0, 0.05, 0.5, 0.0, 10.0)
"""How long after the switch the source forgets the VM: its entries in every zone are deleted there. The
cycle's length has no factor in common with the faults', so that in time each fault meets each of them."""

LATE_S = 4.0
"""How long a late VM lets a migration that is ready wait."""
FLIPS = 5


@dataclass(frozen=True, slots=True)
class Step:
    """One move, of the VM and its gateway: from chassis to chassis by the stage's letters."""

    number: int
    source: str
    target: str
    fault: str
    teardown_s: float


def steps(moves: int) -> tuple[Step, ...]:
    """A to B to C to A and so on; numbers count from 0."""
    letters = "abc"
    return tuple(
        Step(
            n,
            letters[n % 3],
            letters[(n + 1) % 3],
            FAULTS[n % len(FAULTS)],
            TEARDOWNS_S[n % len(TEARDOWNS_S)],
        )
        for n in range(moves)
    )
