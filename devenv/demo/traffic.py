"""Starts and ends a run's traffic programs and captures; turns what they noted into the judge's records."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devenv.demo.capture import Capture, Packet, read
from devenv.demo.judge import Record
from devenv.demo.plan import Session, sessions, to_json
from devenv.demo.stage import SERVERS, VMS
from devenv.guest import outside, shell, vm, vmrecord
from devenv.guest.plan import PROVIDER_BRIDGE
from devenv.guest.vm import BRIDGE

REAL_CHUNK_EVERY_S = 0.1
"""Seconds between the blocks of a download by real VMs: emulated processors, all on one real one."""
END_S = 3.0
"""How long sessions may take to finish as planned once told to."""


class Program:
    """A traffic program with a line-wise conversation on its standard input and output."""

    def __init__(self, argv: Sequence[str], result: Path, log: Path) -> None:
        self.result = result
        self.log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def wait_ready(self) -> None:
        """Until it says so. Raises ClusterError with its words if it ends instead."""
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            said = self.log.read_text(errors="replace")[-1500:]
            raise shell.ClusterError(f"a traffic program did not start: {said}")

    def tell(self, word: str) -> None:
        """Send it a word; one that has died is noticed when its result is read."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def results(self, timeout_s: float = 30.0) -> Any:
        """End it and read what it noted."""
        self.tell("quit")
        self._process.wait(timeout=timeout_s)
        if not self.result.exists():
            raise shell.ClusterError(
                f"a traffic program died: {self.log.read_text(errors='replace')[-1500:]}"
            )
        return json.loads(self.result.read_text())

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()


def vm_side(name: str) -> list[tuple[str, str]]:
    """Where a VM's own packets can be seen: device and namespace; a real VM has a tap on each chassis."""
    machine = vmrecord.load(name)
    if machine.kind == "qemu":
        return [(machine.tap, chassis) for chassis in machine.chassis]
    return [(BRIDGE, machine.namespace)]


class Traffic:
    """All sessions of one run with their captures, from :meth:`start` to :meth:`finish`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.captures: list[Capture] = []
        self.programs: dict[str, Program] = {}
        self.settled = 0.0

    def start(self) -> None:
        """Captures, server, then the VMs one after the other, so that it is known who took a port first."""
        servers = tuple(SERVERS.values())
        self.captures = [Capture(self.folder / "provider.pcap", PROVIDER_BRIDGE, "", servers)]
        for number, (device, namespace) in enumerate(place for n in VMS for place in vm_side(n)):
            self.captures.append(Capture(self.folder / f"vm-side-{number}.pcap", device, namespace, servers))
        python = [sys.executable, "-m"]
        argv = [*python, "devenv.demo.server", str(self.folder / "server.json")]
        if any(vmrecord.load(name).kind == "qemu" for name in VMS):
            argv.append(str(REAL_CHUNK_EVERY_S))
        self._start("server", shell.in_namespace(outside.NAME, argv))
        for name in VMS:
            order = self.folder / f"{name}.order.json"
            mine = [s for s in sessions() if s.vm == name]
            order.write_text(json.dumps({"servers": SERVERS, "sessions": to_json(mine)}))
            real = vmrecord.load(name).kind == "qemu"
            argv = [*python, f"devenv.demo.{'realclient' if real else 'client'}"]
            argv += [str(order), str(self.folder / f"{name}.json")]
            self._start(name, argv if real else vm.command(name, argv))
        self.settled = time.time()

    def _start(self, name: str, argv: Sequence[str]) -> None:
        program = Program(argv, self.folder / f"{name}.json", self.folder / f"{name}.log")
        self.programs[name] = program
        program.wait_ready()

    def finish(self) -> list[Record]:
        """Bring every session to its planned end and return what was recorded."""
        planned_end = time.time()
        for program in self.programs.values():
            program.tell("stop")
        time.sleep(END_S)
        for capture in self.captures:
            capture.stop()
        noted = {name: self.programs[name].results() for name in VMS}
        server = self.programs["server"].results()
        return [record_of(s, noted[s.vm][s.name], server, (self.settled, planned_end)) for s in sessions()]

    def packets(self) -> tuple[list[Packet], list[Packet]]:
        """What the captures on the VMs' side, and on the provider network, saw."""
        provider, *vms = self.captures
        return [p for c in vms for p in read(c.file)], list(read(provider.file))

    def abandon(self) -> None:
        """End everything that still runs."""
        for program in self.programs.values():
            program.kill()
        for capture in self.captures:
            capture.stop()


def record_of(
    session: Session, note: dict[str, Any], server: dict[str, Any], span: tuple[float, float]
) -> Record:
    """Join what the VM and the server noted of one session; ``span`` is from all open to the planned end."""
    settled, planned_end = span
    if session.kind == "udp":
        there = server["datagrams"].get(session.name, {"received": [], "peers": []})
        peers = there["peers"]
    else:
        there = server["connections"].get(note["connection"], {"received": [], "peer": None})
        peers = [there["peer"]] if there["peer"] else []
    address, port = note["local"]
    arrivals = sorted(note["received"])
    return Record(
        session=session,
        to_vm=arrivals,
        to_server=sorted(there["received"]),
        opened=arrivals[0] if arrivals else planned_end,
        settled=settled,
        planned_end=planned_end,
        ended=bool(note["ended"]),
        checksum_right=note.get("checksum_right"),
        error=note["error"],
        vm_address=address,
        vm_port=port,
        accepted=tuple(f"{a.removeprefix('::ffff:')}:{p}" for a, p in peers),
    )
