"""Which nodes a cluster has, and their names and addresses. Pure: options in, plan out.

Variables, defaults and naming follow ovn-fake-multinode, so that people who know it find their way.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

INNER_MTU = 1500
# A geneve header with OVN's option is 58 bytes over IPv4 and 78 over IPv6.
ENCAP_BYTES = {4: 58, 6: 78}

UNDERLAY_BRIDGE = "br-ovn"
PROVIDER_BRIDGE = "br-ovn-ext"
UNDERLAY_LINK = "eth1"
PROVIDER_LINK = "eth2"
OVS_PROVIDER_BRIDGE = "br-ex"
PHYSICAL_NETWORK = "public"
NB_PORT = 6641
SB_PORT = 6642

# The name becomes a network namespace, a directory and a host name.
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}")
_MAX_NODES = 100


class PlanError(ValueError):
    """An option does not make a cluster; the text says which and what to give instead."""


class Role(Enum):
    """What a node does in the cluster."""

    CENTRAL = "central"
    GATEWAY = "gateway"
    CHASSIS = "chassis"


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `name` is its system-id, host name and network namespace at once."""

    name: str
    role: Role
    index: int
    address: IPAddress
    prefix_len: int

    @property
    def runs_ovs(self) -> bool:
        """Central runs the databases and northd only; every other node is a chassis."""
        return self.role is not Role.CENTRAL

    @property
    def underlay_peer(self) -> str:
        """The end of eth1 that is a port of the underlay bridge."""
        return f"und{self.index}"

    @property
    def provider_peer(self) -> str:
        """The end of eth2 that is a port of the provider bridge (the top-of-rack switch)."""
        return f"prv{self.index}"

    @property
    def underlay_mac(self) -> str:
        """A fixed address, so that a capture can be read without a table."""
        return f"02:00:00:00:01:{self.index:02x}"

    @property
    def provider_mac(self) -> str:
        """As `underlay_mac`, for eth2 and br-ex."""
        return f"02:00:00:00:02:{self.index:02x}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole cluster: nodes in the order central, gateways, chassis, addresses upward in that order."""

    nodes: tuple[Node, ...]
    ssl: bool
    datapath: str
    monitor_all: bool
    services: bool
    outside_vlan: int | None

    @property
    def central(self) -> Node:
        return self.nodes[0]

    @property
    def chassis(self) -> tuple[Node, ...]:
        """Every node with an ovn-controller: the gateways, then the plain chassis."""
        return tuple(node for node in self.nodes if node.runs_ovs)

    @property
    def underlay_mtu(self) -> int:
        return INNER_MTU + ENCAP_BYTES[self.central.address.version]

    @property
    def scheme(self) -> str:
        return "ssl" if self.ssl else "tcp"

    def remote(self, port: int) -> str:
        """The central node's database as other nodes reach it, for example `tcp:170.168.0.2:6642`."""
        address = self.central.address
        host = f"[{address}]" if address.version == 6 else str(address)
        return f"{self.scheme}:{host}:{port}"

    def node(self, name: str) -> Node:
        """The node of that name; PlanError names those that exist."""
        for node in self.nodes:
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise PlanError(f"no node is called {name!r}; there are: {known}")


def _count(env: Mapping[str, str], key: str, default: int, least: int) -> int:
    text = env.get(key, "")
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= _MAX_NODES:
        raise PlanError(f"{key}={text!r} is not a number from {least} to {_MAX_NODES}")
    return int(text)


def _flag(env: Mapping[str, str], key: str, default: bool) -> bool:
    text = env.get(key, "")
    if not text:
        return default
    if text not in ("yes", "no"):
        raise PlanError(f"{key}={text!r} is neither yes nor no")
    return text == "yes"


def _network(env: Mapping[str, str]) -> IPNetwork:
    host = env.get("IP_HOST") or "170.168.0.0"
    cidr = env.get("IP_CIDR") or "16"
    try:
        return ipaddress.ip_network(f"{host}/{cidr}")
    except ValueError as error:
        raise PlanError(f"IP_HOST={host!r} with IP_CIDR={cidr!r} is no network: {error}") from error


def _first_address(env: Mapping[str, str], network: IPNetwork) -> IPAddress:
    text = env.get("IP_START") or str(network.network_address + 2)
    try:
        first = ipaddress.ip_address(text)
    except ValueError as error:
        raise PlanError(f"IP_START={text!r} is no address: {error}") from error
    if first not in network or first == network.network_address:
        raise PlanError(f"IP_START={text} is no node's address in {network}")
    return first


def _vlan(env: Mapping[str, str]) -> int | None:
    text = env.get("OUTSIDE_VLAN", "")
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 4094:
        raise PlanError(f"OUTSIDE_VLAN={text!r} is not a VLAN from 1 to 4094")
    return int(text)


def _datapath(env: Mapping[str, str]) -> str:
    datapath = env.get("OVN_DP_TYPE") or "system"
    if datapath not in ("system", "netdev"):
        raise PlanError(f"OVN_DP_TYPE={datapath!r} is neither system (kernel) nor netdev (userspace)")
    return datapath


def plan_from(env: Mapping[str, str]) -> Plan:
    """Reads the options; unset and empty mean the default. Raises PlanError for what makes no cluster."""
    if _count(env, "CENTRAL_COUNT", 1, 1) != 1:
        raise PlanError("CENTRAL_COUNT must be 1: this cluster has one central node")
    if _flag(env, "OVN_DB_CLUSTER", False):
        raise PlanError("OVN_DB_CLUSTER=yes is not built: this cluster has one central node")
    network = _network(env)
    first = _first_address(env, network)
    names = [(f"{env.get('CENTRAL_PREFIX') or 'ovn-central-az'}1", Role.CENTRAL)]
    gateway_prefix = env.get("GW_PREFIX") or "ovn-gw-"
    chassis_prefix = env.get("CHASSIS_PREFIX") or "ovn-chassis-"
    names += [(f"{gateway_prefix}{n}", Role.GATEWAY) for n in range(1, _count(env, "GW_COUNT", 0, 0) + 1)]
    names += [
        (f"{chassis_prefix}{n}", Role.CHASSIS) for n in range(1, _count(env, "CHASSIS_COUNT", 3, 0) + 1)
    ]
    if len(names) == 1:
        raise PlanError("a cluster needs a chassis: CHASSIS_COUNT or GW_COUNT must be at least 1")
    last = first + (len(names) - 1)
    if last not in network or (network.version == 4 and last == network.broadcast_address):
        raise PlanError(f"{len(names)} nodes from {first} on do not fit into {network}")
    for name, _ in names:
        if not _NODE_NAME.fullmatch(name):
            raise PlanError(f"node name {name!r}: use letters, digits, dots and hyphens, at most 63")
    if len({name for name, _ in names}) != len(names):
        raise PlanError("CENTRAL_PREFIX, GW_PREFIX and CHASSIS_PREFIX give two nodes one name")
    nodes = tuple(
        Node(name, role, index, first + index, network.prefixlen) for index, (name, role) in enumerate(names)
    )
    return Plan(
        nodes=nodes,
        ssl=_flag(env, "ENABLE_SSL", False),
        datapath=_datapath(env),
        monitor_all=_flag(env, "OVN_MONITOR_ALL", False),
        services=_flag(env, "OVNMIG_SERVICES", True),
        outside_vlan=_vlan(env),
    )
