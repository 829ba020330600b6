"""Captures inside the guest, read back here with the demo's reader."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path

from devenv.demo.capture import PCAP_HEADER, SNAP_BYTES, Packet, read
from devenv.host.paths import OUT
from tests.sandbox.cluster import Cluster, eventually
from tests.sandbox.world import SERVERS

PROVIDER = "br-ovn-ext"
_captures = itertools.count(1)


def session_filter() -> str:
    """What leaves towards the server, every RST, and every ICMP error: little enough to keep a whole run."""
    not_server = " and ".join(f"not src host {address}" for address in SERVERS.values())
    resets = "(tcp[13] & 4 != 0) or (ip6[6] = 6 and ip6[53] & 4 != 0)"
    return f"(ip or ip6) and (({not_server}) or {resets} or icmp or icmp6)"


class Capture:
    """A tcpdump in a namespace of the guest (``None``: its root namespace) until :meth:`packets`."""

    def __init__(self, cluster: Cluster, interface: str, node: str | None, what: str) -> None:
        self.cluster = cluster
        name = f"tests-{cluster.name}-{next(_captures)}.pcap"
        self.file = OUT / name
        self.file.unlink(missing_ok=True)
        script = 'exec >/dev/null 2>/out/"$1".log </dev/null; '
        script += 'tcpdump -i "$2" -n -U -B 4096 -s "$3" -w /out/"$1" "$4" & echo $! >/tmp/"$1".pid'
        words = ["sh", "-c", script, "sh", name, interface, str(SNAP_BYTES), what]
        self.cluster.run(*words, node=node)
        self._name = name
        eventually(f"tcpdump on {interface}", self._begun, 10)

    def _begun(self) -> bool:
        return self.file.exists() and self.file.stat().st_size >= PCAP_HEADER

    def stop(self) -> None:
        """Ends it; packets on their way are still written."""
        time.sleep(0.3)
        script = 'kill -INT "$(cat /tmp/"$1".pid)"; while kill -0 "$(cat /tmp/"$1".pid)"; do sleep 0.05; done'
        self.cluster.attempt("timeout", "5", "sh", "-c", script, "sh", self._name)

    def packets(self) -> list[Packet]:
        """Everything it saw. The file is gone afterwards."""
        found = list(read(self.file))
        self.remove()
        return found

    def remove(self) -> None:
        for file in (self.file, Path(f"{self.file}.log")):
            file.unlink(missing_ok=True)


def captures(cluster: Cluster, vms: Sequence[str]) -> tuple[list[Capture], Capture]:
    """One capture on each VM's own interface, and one on the provider network."""
    what = session_filter()
    return [Capture(cluster, "br0", vm, what) for vm in vms], Capture(cluster, PROVIDER, None, what)
