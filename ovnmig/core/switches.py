"""Which logical switch a request means."""

from __future__ import annotations

from ovnmig.core.conflicts import Findings
from ovnmig.core.udn import UdnRequest, UdnSpec
from ovnmig.core.views import NbView, SwitchView


def find_switch(
    request: UdnRequest, nb: NbView, current: UdnSpec | None, found: Findings
) -> tuple[str, str | None]:
    """Name and UUID of the switch; UUID ``None`` when it is, or is to be, ours. A switch may be named by
    UUID."""
    if request.switch is None and not request.create_switch:
        if current is not None:
            return current.switch, current.switch_uuid
        found.add("switch-missing", "name the UDN's switch, or ask to create it", "switch")
        return "", None
    name = request.switch if request.switch is not None else request.name
    owned = {row.uuid for row in nb.owned if row.udn == request.name}
    ours = [s for s in nb.switches if s.name == name and _is_ours(s, request.name, nb)]
    others = [s for s in nb.switches if name in (s.name, s.uuid) and s.uuid not in owned]
    if request.create_switch or (ours and not others):
        if others:
            found.add(
                "switch-exists",
                f"switch {name!r} exists and is not this UDN's; attach to it or give another name",
                "switch",
                conflict=True,
            )
        return name, None
    if not others:
        found.add(
            "unknown-switch", f"no logical switch {name!r}; check the name or ask to create it", "switch"
        )
        return name, None
    if len(others) > 1:
        choice = ", ".join(sorted(s.uuid for s in others))
        found.add(
            "ambiguous-switch",
            f"{len(others)} switches are called {name!r}; name the one you mean by its UUID: {choice}",
            "switch",
            conflict=True,
        )
    return others[0].name, others[0].uuid


def _is_ours(switch: SwitchView, udn: str, nb: NbView) -> bool:
    return any(row.uuid == switch.uuid and row.udn == udn and row.role == "switch" for row in nb.owned)
