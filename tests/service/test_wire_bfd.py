from __future__ import annotations

from ovnmig.service.wire_bfd import bfd_answer


def test_what_somebody_else_set_is_custom_and_no_number_is_unset() -> None:
    answer = bfd_answer({"bfd-min-rx": "300", "bfd-mult": "many"})
    assert (answer.profile, answer.min_rx_ms, answer.min_tx_ms, answer.mult) == ("custom", 300, None, None)
