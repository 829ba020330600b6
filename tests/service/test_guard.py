from __future__ import annotations

import pytest

from ovnmig.service.guard import ListenRefused, check_listen_address


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback_is_fine(address: str) -> None:
    check_listen_address(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "example", "", "127.1"])
def test_anything_else_is_refused_with_what_to_set(address: str) -> None:
    with pytest.raises(ListenRefused, match=r"OVNMIG_LISTEN_ADDRESS.*127\.0\.0\.1"):
        check_listen_address(address)
