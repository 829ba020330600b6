"""Who a standing stream may write to: standbys, never the chassis that owns the gateway.

After an unplanned take-over the former owner may be alive and cut off from the controller. Its entries die of
silence one after another, and each death is told over its stream: it must not end the live session here.
"""

from __future__ import annotations

from collections.abc import Callable

from ovnmig.agent.store import Fence


class Roles:
    """What this node knows of its own role, from the integration bridge and from the controller's orders."""

    def __init__(self, orders: Fence) -> None:
        self._orders = orders
        self._resident: Callable[[str], bool | None] = lambda _: None

    def watch(self, resident: Callable[[str], bool | None]) -> None:
        """``resident`` tells whether a UDN's gateway is here; ``None``: it cannot tell."""
        self._resident = resident

    def objection(self, udn: str, epoch: int) -> str:
        """Why a standing stream of that epoch may not write here, in words; empty when it may."""
        if self._resident(udn):
            return f"owns the gateway of UDN {udn!r} itself"
        ordered = self._orders.highest(udn)
        if epoch < ordered:
            return f"has an order of epoch {ordered} for UDN {udn!r}, the stream is of epoch {epoch}"
        return ""

    def owner(self, udn: str) -> bool:
        """The UDN's gateway is here, as the bridge's flows show."""
        return self._resident(udn) is True

    def surely_elsewhere(self, udn: str) -> bool:
        """The UDN's gateway is not here, as the bridge's flows show."""
        return self._resident(udn) is False
