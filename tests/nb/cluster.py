"""OVN's own daemons on test databases: northd, and chassis with the userspace dummy datapath (no packets,
real claims)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.nb.server import DatabaseServer, northbound, southbound

OVS_SCHEMA = Path(os.environ.get("OVS_SCHEMA_DIR", "/usr/share/openvswitch")) / "vswitch.ovsschema"


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 15.0) -> None:
    """Return when ``condition`` holds. Raises RuntimeError, naming ``what``, when it does not come to
    hold."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"did not happen in {timeout_s} s: {what}")
        time.sleep(0.02)


class Processes:
    """Daemons of one folder, each with its run directory there."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"ovnmig-{name}-", dir="/tmp"))
        self.environment = {
            **os.environ,
            "OVS_RUNDIR": str(self.folder),
            "OVN_RUNDIR": str(self.folder),
            "OVS_LOGDIR": str(self.folder),
            "OVN_LOGDIR": str(self.folder),
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def spawn(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a daemon in the foreground of a process that ``end`` will kill."""
        output = (self.folder / f"{command[0]}.out").open("ab")
        with output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self.environment, cwd=self.folder
            )
        self._running.append(process)
        return process

    def run(self, *command: str) -> str:
        """Run a tool of theirs to its end."""
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=self.environment, cwd=self.folder
        ).stdout

    def end(self) -> None:
        """Kill them, newest first, and delete the folder."""
        for process in reversed(self._running):
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


class Chassis(Processes):
    """One node: vswitchd with the dummy datapath and ovn-controller."""

    def __init__(self, name: str, number: int, sb_remote: str, mappings: str) -> None:
        super().__init__(name)
        self.name = name
        database = f"unix:{self.folder}/db.sock"
        self.run("ovsdb-tool", "create", str(self.folder / "conf.db"), str(OVS_SCHEMA))
        self.spawn("ovsdb-server", "conf.db", "--remote=punix:db.sock", "--no-chdir", "--unixctl=db.ctl")
        wait_for(lambda: (self.folder / "db.sock").exists(), f"{name}: OVS database")
        self._vsctl = ("ovs-vsctl", f"--db={database}", "--timeout=10")
        self.run(*self._vsctl, "--no-wait", "init")
        bridges = [pair.rpartition(":")[2] for pair in mappings.split(",") if pair]
        self.run(
            *self._vsctl,
            "--no-wait",
            *("set", "open_vswitch", ".", f"external_ids:system-id={name}", f"external_ids:hostname={name}"),
            *(f"external_ids:ovn-remote={sb_remote}", "external_ids:ovn-encap-type=geneve"),
            *(
                f"external_ids:ovn-encap-ip=127.0.0.{number}",
                f'external_ids:ovn-bridge-mappings="{mappings}"',
            ),
            *(word for bridge in ("br-int", *bridges) for word in ("--", "add-br", bridge)),
        )
        self.spawn("ovs-vswitchd", "--enable-dummy=override", "--disable-system", "--no-chdir", database)
        self.spawn("ovn-controller", "--no-chdir", database)

    def plug(self, port: str) -> None:
        """Give the logical switch port an interface on this chassis."""
        device = f"tap-{port}"
        self.run(
            *self._vsctl,
            *("--may-exist", "add-port", "br-int", device, "--", "set", "interface", device),
            *("type=dummy", f"external_ids:iface-id={port}"),
        )

    def zones(self) -> dict[str, str]:
        """Zone key -> number as br-int has them."""
        listing = self.run(
            *self._vsctl, "--format=json", "--columns=external_ids", "list", "bridge", "br-int"
        )
        ((_, pairs),) = json.loads(listing)["data"][0]
        return {key.removeprefix("ct-zone-"): number for key, number in pairs if key.startswith("ct-zone-")}


class Cluster:
    """Northbound, Southbound, northd and chassis."""

    def __init__(self, chassis: dict[str, str]) -> None:
        """``chassis``: name -> its ovn-bridge-mappings."""
        self.nb: DatabaseServer = northbound()
        self.sb: DatabaseServer = southbound()
        self._central = Processes("central")
        self._central.spawn(
            "ovn-northd",
            f"--ovnnb-db={self.nb.remote}",
            f"--ovnsb-db={self.sb.remote}",
            "--no-chdir",
            "--unixctl=northd.ctl",
        )
        self.chassis = {
            name: Chassis(name, number, self.sb.remote, mappings)
            for number, (name, mappings) in enumerate(chassis.items(), start=1)
        }
        wait_for(lambda: len(self.sb.rows("Chassis")) == len(chassis), "all chassis in SB")

    def nbctl(self, *arguments: str) -> str:
        """Run ovn-nbctl, as an operator or another CMS would."""
        return self._central.run("ovn-nbctl", f"--db={self.nb.remote}", "--timeout=15", *arguments)

    def northd_recomputes(self) -> int:
        """How often northd has computed everything anew (its database input nodes count each wake-up, so not
        they)."""
        control = f"--target={self._central.folder}/northd.ctl"
        text = self._central.run("ovn-appctl", control, "inc-engine/show-stats")
        _, _, after = text.partition("Node: northd\n")
        line = next(line for line in after.splitlines() if "recompute" in line)
        return int(line.split()[-1])

    def end(self) -> None:
        """Leave nothing behind."""
        for chassis in self.chassis.values():
            chassis.end()
        self._central.end()
        self.nb.remove()
        self.sb.remove()
