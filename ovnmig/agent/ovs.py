"""What the node's own Open vSwitch database says: pure questions to a view of it."""

from __future__ import annotations

from pathlib import Path

from ovnmig.agent.localdb import Interface, LocalView

_INTEGRATION = "br-int"
_BFD_STATES = ("up", "init", "down", "admin_down")
"""From best to worst: of several tunnels to one chassis the best counts."""


def system_id(view: LocalView) -> str:
    """The chassis name ovn-controller registers under; empty when unset."""
    return view.external_ids.get("system-id", "")


def encap_ip(view: LocalView, chassis: str) -> str:
    """The first tunnel address; the chassis' own setting goes before the general one. Empty when unset."""
    own = view.external_ids.get(f"ovn-encap-ip-{chassis}", "")
    return (own or view.external_ids.get("ovn-encap-ip", "")).split(",")[0].strip()


def integration_bridge(view: LocalView, chassis: str) -> str:
    """The bridge ovn-controller programs."""
    own = view.external_ids.get(f"ovn-bridge-{chassis}", "")
    return own or view.external_ids.get("ovn-bridge", "") or _INTEGRATION


def bridge_mappings(view: LocalView, chassis: str) -> dict[str, str]:
    """Physical network -> provider bridge."""
    own = view.external_ids.get(f"ovn-bridge-mappings-{chassis}", "")
    text = own or view.external_ids.get("ovn-bridge-mappings", "")
    pairs = (entry.strip().rpartition(":") for entry in text.split(",") if entry.strip())
    return {network: bridge for network, colon, bridge in pairs if colon and network and bridge}


def uplink_problem(view: LocalView, chassis: str, physical_network: str) -> str:
    """Empty when the physical network's bridge exists and has an uplink that is up, else what is wrong."""
    mappings = bridge_mappings(view, chassis)
    if physical_network not in mappings:
        known = ", ".join(sorted(mappings)) or "none"
        return f"chassis {chassis!r} does not map physical network {physical_network!r}, only: {known}"
    name = mappings[physical_network]
    bridge = view.bridges.get(name)
    if bridge is None:
        return (
            f"bridge {name!r} of physical network {physical_network!r} does not exist on chassis {chassis!r}"
        )
    uplinks = [
        one for port in bridge.ports for one in port.interfaces if one.type not in ("patch", "internal")
    ]
    if not uplinks:
        return (
            f"bridge {name!r} of physical network {physical_network!r} has no uplink on chassis {chassis!r}"
        )
    if not any(one.up for one in uplinks):
        names = ", ".join(repr(one.name) for one in uplinks)
        return f"the uplink of bridge {name!r} on chassis {chassis!r} is down ({names}): check the cable"
    return ""


def tunnel_bfd(view: LocalView, chassis: str, peer: str) -> str:
    """BFD on the tunnel to ``peer``, as this node's own switch sees it (``core.transfer.Readiness.bfd``)."""
    states = [one.bfd.get("state", "off") for one in _tunnels(view, chassis, peer)]
    for state in _BFD_STATES:
        if state in states:
            return state
    return "off" if states else "down"


def tunnel_flaps(view: LocalView, chassis: str, peer: str) -> int:
    """How often BFD on the tunnels to ``peer`` went up or down; 0: it has never been up."""
    counts = [one.bfd.get("flap_count", "") for one in _tunnels(view, chassis, peer)]
    return max((int(text) for text in counts if text.isascii() and text.isdigit()), default=0)


def dead_tunnels(view: LocalView, chassis: str) -> dict[str, str]:
    """Other chassis to which BFD runs and is not up, with its state. OVN runs it between the members of HA
    sets and from every chassis that has traffic for them."""
    bridge = view.bridges.get(integration_bridge(view, chassis))
    ids = (port.external_ids.get("ovn-chassis-id", "") for port in (bridge.ports if bridge else ()))
    peers = sorted({peer for peer in (text.rpartition("@")[0] for text in ids) if peer})
    states = {peer: tunnel_bfd(view, chassis, peer) for peer in peers}
    return {peer: state for peer, state in states.items() if state not in ("up", "off")}


def _tunnels(view: LocalView, chassis: str, peer: str) -> list[Interface]:
    bridge = view.bridges.get(integration_bridge(view, chassis))
    # The key's value is "<chassis>@<remote ip>", since 23.09 with "%<local ip>" behind.
    return [
        one
        for port in (bridge.ports if bridge else ())
        if port.external_ids.get("ovn-chassis-id", "").rpartition("@")[0] == peer
        for one in port.interfaces
    ]


def patch_port(view: LocalView, chassis: str, localnet_port: str) -> tuple[str, Interface]:
    """The provider bridge and its patch interface of a localnet port.

    Raises LookupError with the reason while ovn-controller has not made it or it has no number yet.
    """
    integration = integration_bridge(view, chassis)
    for bridge in view.bridges.values():
        if bridge.name == integration:
            continue
        for port in bridge.ports:
            if port.external_ids.get("ovn-localnet-port") == localnet_port:
                interface = port.interfaces[0]
                if not interface.ofport:
                    raise LookupError(f"patch port {interface.name!r} has no OpenFlow number yet")
                return bridge.name, interface
    raise LookupError(f"no patch port for localnet port {localnet_port!r} on chassis {chassis!r} yet")


def management_socket(rundir: Path, bridge: str) -> Path:
    """Where the bridge takes OpenFlow connections."""
    return rundir / f"{bridge}.mgmt"
