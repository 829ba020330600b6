"""A node's bridges: a real ovs-vswitchd (dummy datapath) on its database, whose flows tell of a claim."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.netns.nodes import Node, Site
from tests.netns.spaces import run
from tests.netns.switches import run_quietly

UNSNAT = (
    "table=12,priority=100,ip,metadata=3,reg14=1,nw_dst=172.16.1.100,"
    "actions=ct(table=13,zone=NXM_NX_REG12[0..15],nat)"
)


@dataclass
class Bridges:
    """A real ovs-vswitchd on a node's own database, whose flows tell where the gateway is."""

    node: Node
    daemon: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        words = ["ovs-vswitchd", f"unix:{self.node.rundir}/db.sock", "--enable-dummy", "--disable-system"]
        environment = {"OVS_RUNDIR": str(self.node.rundir), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self.node.vsctl("set", "bridge", "br-int", "datapath_type=dummy")
        self.daemon = subprocess.Popen([*words, "-vconsole:off"], env=environment, cwd=self.node.rundir)
        self._add_provider()
        for _ in range(200):  # the bridge's socket comes a little later
            if run_quietly("ovs-ofctl", "-O", "OpenFlow15", "show", self.bridge):
                return
            time.sleep(0.05)
        raise AssertionError("ovs-vswitchd does not come up")

    def _add_provider(self) -> None:
        """Without it the agent watches nothing: it could announce nowhere."""
        words = ["add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=dummy"]
        for bridge, port, peer in (("br-ex", "to-int", "to-ex"), ("br-int", "to-ex", "to-int")):
            words += ["--", "add-port", bridge, port]
            words += ["--", "set", "interface", port, "type=patch", f"options:peer={peer}"]
            words += ["--", "set", "port", port, "external_ids:ovn-localnet-port=ln"]
        run("ovs-vsctl", f"--db=unix:{self.node.rundir}/db.sock", "--retry", *words)

    @property
    def bridge(self) -> str:
        """Where its OpenFlow is."""
        return f"unix:{self.node.rundir}/br-int.mgmt"

    def claim(self) -> None:
        """As ovn-controller does when the gateway port is its own: the flow that translates back comes."""
        run("ovs-ofctl", "-O", "OpenFlow15", "add-flow", self.bridge, UNSNAT)

    def release(self) -> None:
        """The port is another chassis' now."""
        run("ovs-ofctl", "-O", "OpenFlow15", "del-flows", self.bridge, "table=12")

    def stop(self) -> None:
        """End the daemon."""
        self.daemon.kill()
        self.daemon.wait()


@contextmanager
def bridges(site: Site) -> Iterator[dict[str, Bridges]]:
    """Bridges on every node, until the end of the block; nobody has the gateway yet."""
    with ExitStack() as stack:
        made = {}
        for name, node in site.nodes.items():
            made[name] = Bridges(node)
            stack.callback(made[name].stop)
        yield made
