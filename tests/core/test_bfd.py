from __future__ import annotations

import pytest

from ovnmig.core import bfd
from ovnmig.core.bfd import Profile


@pytest.mark.parametrize("profile", list(Profile))
def test_each_profile_is_recognised_beside_options_of_others(profile: Profile) -> None:
    options = {"northd_probe_interval": "5000", **bfd.VALUES[profile]}
    assert bfd.profile_of(options) == profile.value
    assert bfd.ours(options) == bfd.VALUES[profile]


def test_other_values_are_custom() -> None:
    assert bfd.profile_of({"bfd-mult": "5"}) == bfd.CUSTOM


def test_the_fast_profile_notices_a_crash_after_six_tenths_of_a_second() -> None:
    values = bfd.VALUES[Profile.FAST]
    assert int(values[bfd.MIN_RX]) * int(values[bfd.MULT]) == 600
