"""The number for ``options:snat-ct-zone``: the same zone on every chassis, and no other router's."""

from __future__ import annotations

import hashlib

from ovnmig.core.conflicts import Findings
from ovnmig.core.udn import UdnRequest, UdnSpec
from ovnmig.core.views import NbView

DEFAULT_ZONES = (32768, 63999)
"""Above what ovn-controller hands out by itself (lowest free number first)."""
NEVER = frozenset({0, *range(64000, 64005)})
"""Zone 0 is the host's own traffic, 64000-64004 are ovn-kubernetes' on its provider bridge."""
OFF = "off"


def taken_zones(nb: NbView, own: set[str]) -> dict[int, str]:
    """Zone number -> name of the router that asks for it, this UDN's own router left out."""
    taken: dict[int, str] = {}
    for router in nb.routers:
        text = router.options.get("snat-ct-zone", "")
        if router.uuid not in own and text.isascii() and text.isdigit():
            taken[int(text)] = router.name
    return taken


def pick_zone(
    request: UdnRequest,
    nb: NbView,
    own: set[str],
    current: UdnSpec | None,
    owner: str,
    zone_range: tuple[int, int],
    found: Findings,
) -> int | None:
    """The zone to ask for; ``None`` leaves the option unset. A change keeps the zone unless the request names
    another."""
    if request.snat_zone == OFF:
        return None
    if isinstance(request.snat_zone, str):
        found.add(
            "bad-snat-zone", f"snat_zone {request.snat_zone!r} is neither a number nor 'off'", "snat_zone"
        )
        return None
    low, high = zone_range
    taken = taken_zones(nb, own)
    if request.snat_zone is not None:
        zone = request.snat_zone
        if zone in NEVER or not low <= zone <= high:
            found.add("bad-snat-zone", f"zone {zone} is not ours to take; use {low} to {high}", "snat_zone")
        elif zone in taken:
            found.add(
                "snat-zone-taken",
                f"zone {zone} is asked for by router {taken[zone]!r}; choose another or leave it out",
                "snat_zone",
                conflict=True,
            )
        return zone
    if current is not None:
        return current.snat_zone
    return _free_zone(f"{owner}/{request.name}", taken, zone_range, found)


def _free_zone(seed: str, taken: dict[int, str], zone_range: tuple[int, int], found: Findings) -> int | None:
    """A free number, starting at a place that depends on the UDN: two creations at once hardly ever meet."""
    low, high = zone_range
    size = high - low + 1
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()
    start = int.from_bytes(digest[:8], "big")
    for step in range(size):
        zone = low + (start + step) % size
        if zone not in taken and zone not in NEVER:
            return zone
    found.add(
        "snat-zones-exhausted",
        f"every zone from {low} to {high} is taken; widen the range or set snat_zone to 'off'",
        "snat_zone",
        conflict=True,
    )
    return None
