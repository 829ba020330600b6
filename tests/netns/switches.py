"""A real ovs-vswitchd (dummy datapath) with br-int and a provider bridge, as ovn-controller leaves them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.netns.nodes import SCHEMA
from tests.netns.spaces import run

LOCALNET = 'ln "blue"'
PROVIDER = "br-ex"


def run_quietly(*words: str) -> bool:
    """Whether a command succeeded."""
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


class Switches:
    """Both bridges; flows and frames through the tools that come with Open vSwitch."""

    def __init__(self, rundir: Path) -> None:
        self.rundir = rundir
        self.remote = f"unix:{rundir}/db.sock"
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self, *, provider: bool = True) -> None:
        """Daemons, bridges, patch ports."""
        run("ovsdb-tool", "create", str(self.rundir / "conf.db"), SCHEMA)
        quiet = ("-vconsole:off",)
        self._spawn("ovsdb-server", str(self.rundir / "conf.db"), f"--remote=p{self.remote}", *quiet)
        self.vsctl("--no-wait", "--", "init", "--", "set", "Open_vSwitch", ".", "external_ids:system-id=a")
        self.start_vswitchd()
        self.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=dummy")
        if provider:
            self.add_provider()

    def start_vswitchd(self) -> None:
        """The switch daemon alone."""
        self._spawn("ovs-vswitchd", self.remote, "--enable-dummy", "--disable-system", "-vconsole:off")

    def add_provider(self) -> None:
        """The provider bridge with an uplink, and the patch ports that ovn-controller makes for LOCALNET."""
        self.vsctl("add-br", PROVIDER, "--", "set", "bridge", PROVIDER, "datapath_type=dummy")
        capture = f"options:tx_pcap={self.rundir}/uplink.pcap"
        self.vsctl("add-port", PROVIDER, "up1", "--", "set", "interface", "up1", "type=dummy", capture)
        for bridge, port, peer in ((PROVIDER, "to-int", "to-ex"), ("br-int", "to-ex", "to-int")):
            self.vsctl(
                *(
                    "add-port",
                    bridge,
                    port,
                    "--",
                    "set",
                    "interface",
                    port,
                    "type=patch",
                    f"options:peer={peer}",
                ),
                *("--", "set", "port", port, f"external_ids:ovn-localnet-port={json.dumps(LOCALNET)}"),
            )

    def restart_vswitchd(self) -> None:
        """Kill the switch daemon and start it again: flows and connections are gone."""
        daemon = self._daemons.pop()
        daemon.kill()
        daemon.wait()
        self.start_vswitchd()
        self.vsctl("list-br")
        for _ in range(200):  # the bridges' sockets come a little later
            if run_quietly("ovs-ofctl", "-O", "OpenFlow15", "show", f"unix:{self.rundir}/br-int.mgmt"):
                return
            time.sleep(0.05)
        raise AssertionError("ovs-vswitchd does not come back")

    def stop(self) -> None:
        """End both daemons."""
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()

    def vsctl(self, *words: str) -> str:
        """ovs-vsctl on this database."""
        return run("ovs-vsctl", f"--db={self.remote}", "--retry", *words)

    def flow(self, command: str, flow: str) -> None:
        """ovs-ofctl on br-int, as ovn-controller would with OpenFlow 1.5."""
        run("ovs-ofctl", "-O", "OpenFlow15", command, f"unix:{self.rundir}/br-int.mgmt", flow)

    def fdb(self) -> list[list[str]]:
        """Port, VLAN and MAC of what the provider bridge has learned."""
        target = next(self.rundir.glob("ovs-vswitchd.*.ctl"))
        lines = run("ovs-appctl", "-t", str(target), "fdb/show", PROVIDER).splitlines()[1:]
        return [line.split()[:3] for line in lines]

    def sent(self) -> bytes:
        """What went out of the uplink so far, as a capture file."""
        return (self.rundir / "uplink.pcap").read_bytes()

    def _spawn(self, *words: str) -> None:
        environment = {"OVS_RUNDIR": str(self.rundir), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        for old in self.rundir.glob(f"{words[0]}.*.ctl"):
            old.unlink()
        self._daemons.append(subprocess.Popen(words, env=environment, cwd=self.rundir))


@contextmanager
def switches(*, provider: bool = True) -> Iterator[Switches]:
    """Running bridges, stopped at the end."""
    with TemporaryDirectory(prefix="ovt") as folder:
        made = Switches(Path(folder))
        try:
            made.start(provider=provider)
            yield made
        finally:
            made.stop()
