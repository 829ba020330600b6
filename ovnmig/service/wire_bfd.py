"""Wire models of the BFD intervals."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, Field

from ovnmig.core import bfd
from ovnmig.core.bfd import Profile
from ovnmig.service import examples
from ovnmig.service.fields import AnswerModel, RequestModel


class BfdChange(RequestModel):
    """PUT /v1/bfd: which profile the deployment is to have."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.BFD_CHANGE]})

    profile: Profile


class BfdAnswer(AnswerModel):
    """The deployment's BFD intervals; null: unset, OVN's own value."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.BFD]})

    profile: str = Field(description="'default', 'fast', or 'custom': set by somebody else")
    min_rx_ms: int | None
    min_tx_ms: int | None
    mult: int | None


def bfd_answer(options: Mapping[str, str]) -> BfdAnswer:
    """The wire form of the intervals. What is no number is shown as unset."""
    values = {key: int(text) if (text := options.get(key, "")).isdecimal() else None for key in bfd.KEYS}
    return BfdAnswer(
        profile=bfd.profile_of(options),
        min_rx_ms=values[bfd.MIN_RX],
        min_tx_ms=values[bfd.MIN_TX],
        mult=values[bfd.MULT],
    )
