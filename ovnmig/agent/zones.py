"""Conntrack zone numbers of this node, by name, from the integration bridge's ``external_ids``.

ovn-controller writes the key of a zone only after it has flushed it (ofctrl.c, ct-zone.c: the key goes to
the database once the barrier after the flush was answered). So "the key is there" is the import gate:
entries put in before it would be flushed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ovnmig.agent import ovs
from ovnmig.agent.localdb import LocalView
from ovnmig.core.transfer import ZoneKind, ZoneRef

_PREFIX = "ct-zone-"
_MAX_ZONE = 65535


def number(view: LocalView, chassis: str, zone: ZoneRef) -> int | None:
    """This node's number of a zone, None while it has none or its flush is not done. Never keep the answer.

    Keys of router zones: ``ct-zone-<datapath uuid>_snat`` until OVN 23.06.0, ``ct-zone-<router>_snat`` since.
    The UUID form goes first: it is never ambiguous, while an old OVN may have a port named like a new key.
    Zone 0 is everybody's and never ours.
    """
    bridge = view.bridges.get(ovs.integration_bridge(view, chassis))
    if bridge is None:
        return None
    for key in _keys(zone):
        text = bridge.external_ids.get(_PREFIX + key, "")
        if text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_ZONE:
            return int(text)
    return None


def present(view: LocalView, chassis: str, zones: Iterable[ZoneRef]) -> dict[str, int]:
    """Wire name -> number for those of ``zones`` that exist here now."""
    found = ((zone.key, number(view, chassis, zone)) for zone in zones)
    return {key: value for key, value in found if value is not None}


def shared(view: LocalView, chassis: str, zones: Iterable[ZoneRef]) -> list[str]:
    """In words: zones whose number another name on this node has too, so that entries are not only ours."""
    bridge = view.bridges.get(ovs.integration_bridge(view, chassis))
    if bridge is None:
        return []
    users: dict[str, list[str]] = {}
    for key, value in bridge.external_ids.items():
        if key.startswith(_PREFIX):
            users.setdefault(value, []).append(key.removeprefix(_PREFIX))
    out = []
    for zone in zones:
        own = number(view, chassis, zone)
        others = sorted(set(users.get(str(own), ())) - _own(zone))
        if own is not None and others:
            out.append(f"zone {own} of {zone.key!r} is used by {', '.join(map(repr, others))} too")
    return out


def _own(zone: ZoneRef) -> set[str]:
    """All names under which the same router or port may use a number."""
    kinds = (zone.kind,) if zone.kind is ZoneKind.PORT else (ZoneKind.SNAT, ZoneKind.DNAT)
    return {key for kind in kinds for key in _keys(replace(zone, kind=kind))}


def _keys(zone: ZoneRef) -> list[str]:
    if zone.kind is ZoneKind.PORT:
        return [zone.name]
    suffix = f"_{zone.kind.value}"
    return [zone.datapath + suffix, zone.name + suffix] if zone.datapath else [zone.name + suffix]
