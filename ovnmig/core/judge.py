"""Judgements that both the preflight and the machine need: can the target take traffic, has the VM
arrived."""

from __future__ import annotations

from ovnmig.core.legs import forward_legs, router_zones
from ovnmig.core.migration import MigrationRecord, Trigger
from ovnmig.core.transfer import Readiness
from ovnmig.core.views import BindingView


def arrived(binding: BindingView | None, target: str) -> bool:
    """The VM's port is bound on the target, or its activation strategy let it through there (OVN 22.06 and
    later)."""
    return binding is not None and (binding.chassis == target or target in binding.activated)


def bfd_problem(readiness: Readiness, peer: str) -> str:
    """What is wrong with BFD towards ``peer``, as the tunnel says; empty when up. A record of it in a
    database can lie."""
    state = readiness.bfd.get(peer, "off")
    return "" if state == "up" else f"BFD towards {peer} is {state}"


BFD_START_S = 20.0
"""BFD between the members of an HA set is up some seconds after the set grew (3 s, measured on the sandbox's
one processor). For so long it may be on its way."""


def set_is_young(grown_at: float, now: float) -> bool:
    """The HA set grew a moment ago: what OVN makes of it may not be complete. Both in Unix seconds, perhaps
    of two controllers' clocks."""
    return abs(now - grown_at) < BFD_START_S


def bfd_is_coming(readiness: Readiness, peer: str, grown_at: float, now: float) -> bool:
    """BFD towards ``peer`` is not up *yet*: the set is young, and BFD was neither up before nor switched off
    by hand."""
    state = readiness.bfd.get(peer, "off")
    may_come = state in ("off", "down", "init") and not readiness.bfd_flaps.get(peer, 0)
    return may_come and set_is_young(grown_at, now)


def target_problem(record: MigrationRecord, router: str, nb_cfg: int, readiness: Readiness) -> str:
    """What keeps the target from taking traffic, in words; empty when nothing does.

    ``nb_cfg`` is the target's ``Chassis_Private.nb_cfg``. A router zone counts only when its key stands in
    br-int ``external_ids``: it appears there after OVN's flush of the new zone, so entries put in earlier
    would be lost.
    """
    if nb_cfg < record.nb_cfg:
        return f"{record.target} to install configuration {record.nb_cfg} (it has {nb_cfg})"
    if not record.moves_gateway:
        return ""
    missing = [zone.key for zone in router_zones(router, "") if zone.key not in readiness.zones]
    if missing:
        return f"conntrack zones on {record.target}: {', '.join(missing)}"
    if record.source and bfd_problem(readiness, record.source):
        state = readiness.bfd.get(record.source, "off")
        return f"BFD between {record.target} and {record.source} (it is {state})"
    if readiness.uplink:
        return f"the uplink of {record.target}: {readiness.uplink}"
    return ""


def trigger_met(record: MigrationRecord) -> bool:
    """The switch may happen as soon as the target is in step."""
    if record.switch_ordered:
        return True
    return record.trigger is Trigger.AUTO and (record.port is None or record.arrived)


def trigger_words(record: MigrationRecord) -> str:
    """What a ready migration waits for."""
    if record.trigger is Trigger.MANUAL:
        return "the order to switch"
    return f"the VM's arrival on {record.target}"


def copies(record: MigrationRecord) -> bool:
    """Whether any entries move at all."""
    return bool(forward_legs(record))
