"""Which chassis may own a UDN's gateway, and the priorities of the HA set before, during and after a move."""

from __future__ import annotations

import hashlib

from ovnmig.core.udn import Member, Placement, Policy, Problem, Refused, UdnSpec
from ovnmig.core.views import ChassisView, NbView, PortView, SbView

STEP = 10
"""Distance between priorities, so that a target fits below or between without renumbering."""
MAX_PRIORITY = 32767
"""OVN's limit for ``Gateway_Chassis.priority``."""


def eligible(spec: UdnSpec, sb: SbView) -> tuple[ChassisView, ...]:
    """Chassis that map the physical network and are allowed by the spec, in SB order."""
    return tuple(chassis for chassis in sb.chassis if not _objection(spec, chassis))


def _objection(spec: UdnSpec, chassis: ChassisView) -> str:
    if spec.physical_network not in chassis.physical_networks:
        return f"not eligible: does not map physical network {spec.physical_network}"
    if spec.chassis and chassis.name not in spec.chassis:
        return "not eligible: not in the list of allowed chassis"
    return ""


def vm_ports(spec: UdnSpec, nb: NbView) -> tuple[PortView, ...]:
    """The VM ports (LSPs of the empty type) of the UDN's switch."""
    for switch in nb.switches:
        ours = any(o.uuid == switch.uuid and o.udn == spec.name and o.role == "switch" for o in nb.owned)
        if switch.uuid == spec.switch_uuid or (spec.switch_uuid is None and ours):
            return tuple(port for port in switch.ports if port.type == "")
    return ()


def anchor_port(spec: UdnSpec, nb: NbView) -> str | None:
    """The port the gateway follows: the named anchor, else the switch's only VM port; ``None`` when there is
    no such port."""
    if spec.anchor is not None:
        return spec.anchor
    ports = vm_ports(spec, nb)
    return ports[0].name if len(ports) == 1 else None


def anchor_chassis(spec: UdnSpec, nb: NbView, sb: SbView) -> str | None:
    """The chassis of the anchor VM under ``follow``; ``None`` when unbound, unknown or pinned."""
    if spec.policy is not Policy.FOLLOW:
        return None
    anchor = anchor_port(spec, nb)
    binding = sb.binding(anchor) if anchor is not None else None
    return binding.chassis or None if binding is not None else None


def _spread(udn: str, chassis: str) -> str:
    """A fixed order of chassis that differs per UDN, so that equal candidates share the gateways."""
    return hashlib.sha256(f"{len(udn)}:{udn}{chassis}".encode("utf-8", "surrogatepass")).hexdigest()


def numbered(chassis: tuple[str, ...]) -> tuple[Member, ...]:
    """Members with fresh priorities, first one highest."""
    return tuple(Member((len(chassis) - i) * STEP, name) for i, name in enumerate(chassis))


def by_rank(members: tuple[Member, ...]) -> tuple[Member, ...]:
    """Highest priority first."""
    return tuple(sorted(members, reverse=True))


def choose(
    spec: UdnSpec, nb: NbView, sb: SbView, *, current: tuple[Member, ...] = (), grow: bool = False
) -> Placement:
    """Choose the HA set, with a reason for every chassis. Raises Refused when nobody is eligible.

    ``current``: the members now; those still eligible keep their order, so a change of something else moves
    nothing. Growing from one member to two makes OVN drop the port until BFD is up (about a second), so it
    needs ``grow``.
    """
    candidates = {chassis.name: chassis for chassis in eligible(spec, sb)}
    if not candidates:
        raise Refused((no_candidate(spec, sb),))
    anchor = anchor_chassis(spec, nb, sb)
    kept = [member.chassis for member in by_rank(current) if member.chassis in candidates]

    def rank(name: str) -> tuple[bool, int, bool, str]:
        listed = spec.chassis.index(name) if spec.chassis else 0
        return (name != anchor, listed, not candidates[name].gateway_preferred, _spread(spec.name, name))

    order = kept + [name for name in sorted(candidates, key=rank) if name not in kept]
    size = 1 + spec.standby_count
    held_back = len(kept) == 1 and len(current) == 1 and not grow and len(order) > 1 and size > 1
    chosen = tuple(order[:1] if held_back else order[:size])
    reasons = {
        chassis.name: _reason(spec, chassis, chosen, kept, anchor, held_back=held_back)
        for chassis in sb.chassis
    }
    members = by_rank(current) if tuple(m.chassis for m in by_rank(current)) == chosen else numbered(chosen)
    return Placement(members, reasons)


def _reason(
    spec: UdnSpec,
    chassis: ChassisView,
    chosen: tuple[str, ...],
    kept: list[str],
    anchor: str | None,
    *,
    held_back: bool,
) -> str:
    objection = _objection(spec, chassis)
    if objection:
        return objection
    if chassis.name not in chosen:
        if held_back:
            return "spare: adding a standby interrupts a lone gateway for about a second, so only on request"
        return f"spare: {len(chosen)} of {1 + spec.standby_count} places are taken"
    why = ["maps " + spec.physical_network]
    if chassis.name in kept:
        why.append("is a member already")
    if chassis.name == anchor:
        why.append("runs the anchor VM")
    if spec.chassis:
        why.append(f"number {spec.chassis.index(chassis.name) + 1} of the allowed list")
    if chassis.gateway_preferred:
        why.append("is marked enable-chassis-as-gw")
    if chassis.name != chosen[0]:
        return "standby: " + ", ".join(why)
    lone = " (unprotected: no standby)" if len(chosen) == 1 else ""
    return "active: " + ", ".join(why) + lone


def no_candidate(spec: UdnSpec, sb: SbView) -> Problem:
    """The problem of a spec that no chassis can serve, with what to do."""
    mapped = sorted({network for chassis in sb.chassis for network in chassis.physical_networks})
    if spec.physical_network not in mapped:
        known = ", ".join(mapped) or "none"
        return Problem(
            "physical-network-unmapped",
            f"no chassis maps physical network {spec.physical_network!r} (mapped ones: {known}); "
            "set ovn-bridge-mappings on a chassis or name another network",
            "physical_network",
        )
    able = sorted(c.name for c in sb.chassis if spec.physical_network in c.physical_networks)
    return Problem(
        "no-eligible-chassis",
        f"none of the allowed chassis maps physical network {spec.physical_network!r}; "
        f"these do: {', '.join(able)}",
        "chassis",
        conflict=True,
    )


def with_target(members: tuple[Member, ...], target: str) -> tuple[Member, ...]:
    """The set with ``target`` in it, below all others; unchanged when it is a member."""
    if any(member.chassis == target for member in members):
        return members
    ranked = by_rank(members)
    lowest = ranked[-1].priority if ranked else STEP
    if lowest > 0:
        return (*ranked, Member(lowest // 2, target))
    return numbered((*(member.chassis for member in ranked), target))


def raised(members: tuple[Member, ...], target: str) -> tuple[Member, ...]:
    """The set with ``target`` above all others; unchanged when it is there already."""
    ranked = by_rank(members)
    if ranked and ranked[0].chassis == target:
        return members
    others = tuple(member for member in ranked if member.chassis != target)
    top = (others[0].priority if others else 0) + STEP
    if top <= MAX_PRIORITY:
        return (Member(top, target), *others)
    return numbered((target, *(member.chassis for member in others)))


def trimmed(
    members: tuple[Member, ...],
    owner: str,
    standby_count: int,
    former: str | None,
    drained: frozenset[str] = frozenset(),
) -> tuple[Member, ...]:
    """The set after a move: ``owner`` first, ``former`` as first standby (``None``: no preference), others by
    rank, renumbered.

    ``drained`` chassis leave the set, unless one is the owner. Never adds a chassis.
    """
    present = [m.chassis for m in by_rank(members) if m.chassis == owner or m.chassis not in drained]
    wished = (name for name in (owner, former) if name is not None and name in present)
    order = tuple(dict.fromkeys((*wished, *present)))
    return numbered(order[: 1 + standby_count])
