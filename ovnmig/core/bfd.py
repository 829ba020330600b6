"""How fast OVN notices that a gateway's node is dead: the BFD intervals of the deployment, as named profiles.

They are options of NB_Global and hold for every tunnel between gateway candidates. A shorter interval finds a
crash sooner and takes a busy processor for a dead one more easily.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

MIN_RX, MIN_TX, MULT = KEYS = ("bfd-min-rx", "bfd-min-tx", "bfd-mult")
"""Milliseconds, milliseconds, and how many lost packets mean dead."""
CUSTOM = "custom"
"""Values that are no profile's; somebody else set them."""


class Profile(StrEnum):
    """``default``: OVN's own values (1,000 ms, 100 ms, 3: about 3 s), by leaving the options
    unset. ``fast``: about 0.6 s, tested with a crash."""

    DEFAULT = "default"
    FAST = "fast"


VALUES: Mapping[Profile, Mapping[str, str]] = {
    Profile.DEFAULT: {},
    Profile.FAST: {MIN_RX: "200", MIN_TX: "200", MULT: "3"},
}


def ours(options: Mapping[str, str]) -> dict[str, str]:
    """The BFD intervals among NB_Global's options."""
    return {key: options[key] for key in KEYS if key in options}


def profile_of(options: Mapping[str, str]) -> str:
    """The name of the profile that these options are, or CUSTOM."""
    now = ours(options)
    return next((profile.value for profile, values in VALUES.items() if values == now), CUSTOM)
