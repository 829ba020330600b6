"""Two SNAT gateways between a VM and a server: the packets of real sockets through nft and conntrack.

The VM's and the server's routes say which gateway is used; ``switch`` turns both to B. Each gateway
translates to one address and its own range of ports, drops invalid packets and has the address itself, so
a packet that finds no entry is answered with a reset, as on a real node.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ovnmig.conntrack import NetlinkSocket
from tests.netns.spaces import inside, namespaces, run, within

ZONE_A, ZONE_B = 7, 4099
PORT = 7000
_RULES = """
table inet gateway {{
  chain zone {{
    type filter hook prerouting priority raw
    ct zone set {zone}
  }}
  chain forward {{
    type filter hook forward priority filter
    ct state invalid drop
  }}
  chain out {{
    type nat hook postrouting priority srcnat
    oifname "south" return
    oifname "north" ip saddr 10.1.0.0/24 meta l4proto {{ tcp, udp }} snat ip to 172.16.9.100:{ports}
    oifname "north" ip saddr 10.1.0.0/24 meta l4proto icmp snat ip to 172.16.9.100
    oifname "north" ip6 saddr fd00:10::/64 meta l4proto ipv6-icmp snat ip6 to fd00:99::100
    oifname "north" ip6 saddr fd00:10::/64 meta l4proto {{ tcp, udp }} snat ip6 to [fd00:99::100]:{ports}
  }}
}}
"""


@dataclass
class Stage:
    """Namespace names, the engine's sockets on both gateways, and the family in use."""

    vm: str
    a: str
    b: str
    server: str
    read: NetlinkSocket
    write: NetlinkSocket
    family: int
    opened: list[socket.socket] = field(default_factory=list)

    @property
    def server_address(self) -> str:
        """Where the VM connects to."""
        return "172.16.1.50" if self.family == 4 else "fd00:16::50"

    def listen(self) -> socket.socket:
        """A listening socket of the server."""
        sock = self._socket(self.server)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("::" if self.family == 6 else "0.0.0.0", PORT))
        sock.listen(16)
        return sock

    def connect(self, listener: socket.socket) -> tuple[socket.socket, socket.socket]:
        """A session from the VM: its socket and the server's."""
        sock = self._socket(self.vm)
        sock.connect((self.server_address, PORT))
        accepted, _ = listener.accept()
        accepted.settimeout(5)
        self.opened.append(accepted)
        return sock, accepted

    def datagrams(self) -> tuple[socket.socket, socket.socket]:
        """Unconnected UDP sockets of the VM and of the server; the server's is bound."""
        client = self._socket(self.vm, socket.SOCK_DGRAM)
        server = self._socket(self.server, socket.SOCK_DGRAM)
        server.bind(("::" if self.family == 6 else "0.0.0.0", PORT))
        return client, server

    def switch(self) -> None:
        """All packets go through B from now on."""
        self._route("b")

    def _route(self, gateway: str) -> None:
        number = {"a": 1, "b": 2}[gateway]
        run("ip", "-n", self.vm, "route", "replace", "default", "via", f"10.1.0.{number}")
        run("ip", "-n", self.vm, "-6", "route", "replace", "default", "via", f"fd00:10::{number}")
        run("ip", "-n", self.server, "route", "replace", "172.16.9.100", "via", f"172.16.1.{number}")
        run("ip", "-n", self.server, "-6", "route", "replace", "fd00:99::100", "via", f"fd00:16::{number}")

    def _socket(self, name: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
        family = socket.AF_INET6 if self.family == 6 else socket.AF_INET
        sock = inside(name, lambda: socket.socket(family, kind))
        sock.settimeout(5)
        self.opened.append(sock)
        return sock


@contextmanager
def stage(family: int) -> Iterator[Stage]:
    """VM, gateways A (in use) and B, server; ports are always translated to another number."""
    with namespaces("vm", "gwa", "gwb", "srv", "south", "north") as (vm, a, b, server, south, north):
        for bridge in (south, north):
            run("ip", "-n", bridge, "link", "add", "name", "bridge0", "type", "bridge")
            run("ip", "-n", bridge, "link", "set", "bridge0", "up")
        _plug(vm, "eth0", south, "10.1.0.5/24", "fd00:10::5/64")
        _plug(server, "eth0", north, "172.16.1.50/24", "fd00:16::50/64")
        for number, (name, zone, ports) in enumerate(
            ((a, ZONE_A, "30000-30999"), (b, ZONE_B, "31000-31999")), 1
        ):
            _plug(name, "south", south, f"10.1.0.{number}/24", f"fd00:10::{number}/64")
            _plug(name, "north", north, f"172.16.1.{number}/24", f"fd00:16::{number}/64")
            run("ip", "-n", name, "address", "add", "172.16.9.100/32", "dev", "lo")
            run("ip", "-n", name, "address", "add", "fd00:99::100/128", "dev", "lo", "nodad")
            within(name, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
            within(name, "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=0")
            within(
                name,
                "sysctl",
                "-qw",
                "net.ipv4.conf.all.send_redirects=0",
                "net.ipv4.conf.south.send_redirects=0",
            )
            within(name, "nft", "-f", "-", text=_RULES.format(zone=zone, ports=ports))
        with inside(a, NetlinkSocket) as read, inside(b, NetlinkSocket) as write:
            made = Stage(vm, a, b, server, read, write, family)
            made._route("a")
            try:
                yield made
            finally:
                for sock in made.opened:
                    sock.close()


def _plug(name: str, device: str, bridge: str, *addresses: str) -> None:
    peer = f"{device}-{name[-3:]}"[:15]
    run("ip", "link", "add", device, "netns", name, "type", "veth", "peer", "name", peer, "netns", bridge)
    run("ip", "-n", bridge, "link", "set", peer, "master", "bridge0", "up")
    run("ip", "-n", name, "link", "set", device, "up")
    for address in addresses:
        extra = ["nodad"] if ":" in address else []
        run("ip", "-n", name, "address", "add", address, "dev", device, *extra)
