from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ovnmig.core.views import ChassisView, SbView
from ovnmig.pki import Identity, Role, init_ca, issue
from ovnmig.settings import Settings
from ovnmig.wiring import RememberingSouthbound, StartRefused, controller_files, listener


class FakeSouthbound:
    """Gives the view it holds."""

    now = SbView()

    async def view(self) -> SbView:
        return self.now

    async def wait_until(self, predicate: Callable[[SbView], bool], timeout_s: float) -> bool:
        return predicate(self.now)

    async def healthy(self) -> str:
        return "not well"


def with_chassis(*addresses: str) -> SbView:
    return SbView(chassis=(ChassisView("a b", "host", addresses, frozenset(), False),))


async def test_an_agent_is_called_at_the_first_encap_address_that_was_seen_last() -> None:
    inner = FakeSouthbound()
    southbound = RememberingSouthbound(inner, 8788)
    with pytest.raises(LookupError, match="not been read"):
        southbound.address("a b")
    inner.now = with_chassis("192.0.2.1", "192.0.2.2")
    await southbound.view()
    assert southbound.address("a b") == ("192.0.2.1", 8788)
    with pytest.raises(LookupError, match="no chassis 'c'"):
        southbound.address("c")
    inner.now = with_chassis("2001:db8::1")
    assert await southbound.wait_until(lambda view: bool(view.chassis), 1.0)
    assert southbound.address("a b") == ("2001:db8::1", 8788)
    inner.now = with_chassis()
    await southbound.view()
    with pytest.raises(LookupError, match="encap"):
        southbound.address("a b")
    assert await southbound.healthy() == "not well"


def test_the_controllers_certificate_must_be_a_controllers(tmp_path: Path) -> None:
    settings = Settings(pki_dir=tmp_path, certificate="me")
    with pytest.raises(StartRefused, match=r"ca\.crt is missing"):
        controller_files(settings)
    init_ca(tmp_path)
    issue(tmp_path, Identity(Role.CHASSIS, "me"))
    with pytest.raises(StartRefused, match="from a controller only"):
        controller_files(settings)
    issue(tmp_path, Identity(Role.CONTROLLER, "other"))
    assert controller_files(Settings(pki_dir=tmp_path, certificate="other")).key == tmp_path / "other.key"


def test_a_port_that_is_taken_is_refused_with_the_variable_to_change() -> None:
    with listener(Settings(listen_port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=str(port)) as raised:
            listener(Settings(listen_port=port))
    assert "OVNMIG_LISTEN_PORT" in raised.value.details[0]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7"])
def test_anything_but_loopback_is_refused_before_a_socket_is_made(address: str) -> None:
    with pytest.raises(StartRefused, match="only listens on loopback"):
        listener(Settings(listen_address=address, listen_port=0))


def test_ipv6_loopback_works() -> None:
    with listener(Settings(listen_address="::1", listen_port=0)) as listening:
        assert listening.getsockname()[0] == "::1"
