"""Views of a local database, written down."""

from __future__ import annotations

from collections.abc import Mapping

from ovnmig.agent.localdb import Bridge, Interface, LocalView, Port


def interface(name: str, kind: str = "", *, up: bool = True, ofport: int = 1, bfd: str = "") -> Interface:
    return Interface(name, kind, ofport, up, {"state": bfd} if bfd else {})


def port(name: str, *interfaces: Interface, **external_ids: str) -> Port:
    return Port(name, {key.replace("_", "-"): value for key, value in external_ids.items()}, interfaces)


def view(external_ids: Mapping[str, str] | None = None, **bridges: Bridge) -> LocalView:
    return LocalView(True, external_ids or {}, "3.5.0", {one.name: one for one in bridges.values()})


def zones_view(**keys: str) -> LocalView:
    """br-int with ``ct-zone-`` keys; pass names that are no identifiers with ``**``."""
    named = {f"ct-zone-{key}": value for key, value in keys.items()}
    return view(integration=Bridge("br-int", named, ()))
