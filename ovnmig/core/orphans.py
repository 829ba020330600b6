"""Which of the orders that agents hold nobody wants any more.

An agent goes on until it is told to stop, and whoever should have told it may have been away: an agent that
did not answer, a controller that died, a UDN that was deleted meanwhile. What an agent holds is compared with
what the records ask for. An order is given only after its record was written, and carries the record's epoch:
if a record of the same or a later epoch does not ask for it, it is over. A record of an earlier epoch is an
old picture and proves nothing; and where there is no record at all, only time does. So an order must have
been held for a while, and must be found unwanted twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ovnmig.core.document import UdnDocument
from ovnmig.core.transfer import HeldOrder, OrderKind
from ovnmig.core.udn import Replication

YOUNG_S = 10.0
"""An order that was given less than so long ago may be ahead of our picture of the database."""
AGAIN_S = 10.0
"""So long after it was first found unwanted it must be so still."""

Key: TypeAlias = tuple[str, OrderKind, str]
"""Chassis, kind and id: what an agent is told to end."""


@dataclass(frozen=True, slots=True)
class Known:
    """A UDN as its record and the Southbound database show it. ``owner``: the chassis that has the gateway's
    port, empty for nobody."""

    document: UdnDocument
    epoch: int
    owner: str


def unwanted(
    order: HeldOrder, chassis: str, deployment: str, udns: Mapping[str, Known], unreadable: Collection[str]
) -> str:
    """Why nobody wants the order that ``chassis`` holds, in words; empty when it is to be left alone.

    ``udns`` by name; ``unreadable``: UDNs whose record cannot be read, of which nothing is known.
    """
    if not deployment or order.deployment != deployment or order.age_s < YOUNG_S or order.udn in unreadable:
        return ""
    if not order.migration and not _is_standing(order):
        return ""
    known = udns.get(order.udn)
    if known is None:
        return f"there is no UDN {order.udn!r} any more"
    if order.epoch > known.epoch:
        return ""
    if order.migration:
        running = known.document.migration
        open_now = running is not None and running.id == order.migration
        return "" if open_now else f"migration {order.migration} is not open any more"
    return _standing_unwanted(order, chassis, known)


def _is_standing(order: HeldOrder) -> bool:
    return order.keep or order.kind is OrderKind.ANNOUNCEMENT


def _standing_unwanted(order: HeldOrder, chassis: str, known: Known) -> str:
    """Between the chassis of a replicated UDN roles change by the second, and replication itself sees to
    that; what is left over is on a chassis that has no role any more."""
    document = known.document
    if document.spec.replication is Replication.NONE:
        return "the UDN is not replicated any more"
    if not known.owner:
        return ""
    running = document.migration
    ends = {running.source, running.target} if running is not None else set()
    roles = {known.owner, *ends, *(member.chassis for member in document.members)}
    for name in (chassis, order.target or chassis):
        if name not in roles:
            return f"{name} is not in the gateway's HA set any more"
    return ""


def confirmed(
    found: Mapping[Key, HeldOrder], suspected: Mapping[Key, float], now: float
) -> tuple[tuple[Key, ...], dict[Key, float]]:
    """Which of the orders ``found`` unwanted now were so before, and since when each has been.

    ``suspected``: since when (Unix seconds), as the last look left it. An order that was ended and given anew
    in between begins anew.
    """
    since: dict[Key, float] = {}
    for key, order in found.items():
        first = suspected.get(key, now)
        since[key] = first if order.age_s >= now - first else now
    return tuple(key for key in found if now - since[key] >= AGAIN_S), since
