"""The sessions of one real VM: the same conversation as `client`, but the VM's own program plays them.

Arguments and words are those of `client`. It runs beside the VM and talks to it over a serial port; times
come from the VM's clock and are turned into the machine's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from devenv.guest import qemu, vmrecord
from devenv.guest.qemurecord import Moved, machine_times, moves
from devenv.guest.qmp import clock_offset_s
from devenv.guest.shell import ClusterError

Ask = Callable[[str], str]


def open_sessions(ask: Ask, servers: dict[str, str], sessions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Opens every session; returns what is known of each. Raises ClusterError when one cannot be opened."""
    notes: dict[str, Any] = {}
    for session in sessions:
        family = session["family"]
        words = [session["name"], session["kind"], family, session["source_port"], servers[str(family)]]
        answer = ask(f"open {' '.join(map(str, words))} {session['server_port']}").split()
        if answer[0] != "open":
            raise ClusterError(f"{session['name']} cannot be opened: {' '.join(answer[1:])}")
        _, address, port, connection = answer
        notes[session["name"]] = {
            "kind": session["kind"],
            "local": [address, int(port)],
            "connection": "" if connection == "-" else connection,
        }
    return notes


def read_report(lines: Iterable[str], done: list[Moved], offset_s: float) -> dict[str, dict[str, Any]]:
    """What the VM's program noted of each session, from its report's lines, in the machine's time."""
    found: dict[str, dict[str, Any]] = {}
    times_us: list[int] = []
    for line in lines:
        kind, *words = line.split(" ")
        if kind == "session":
            name, ended, size, digest, told, error_us, *error = words
            times_us = []
            found[name] = {"times_us": times_us, "ended": ended == "1", "error": " ".join(error)}
            if int(error_us):
                found[name]["error_at"] = next(machine_times([int(error_us) / 1e6], done, offset_s))
            if digest != "-":
                found[name] |= {"bytes": int(size), "sha256": digest, "checksum_right": digest == told}
        else:
            for step in map(int, words):
                times_us.append(step + (times_us[-1] if times_us else 0))
    for note in found.values():
        note["received"] = list(machine_times((t / 1e6 for t in note.pop("times_us")), done, offset_s))
    return found


def main() -> int:
    """Plays the sessions of the order until `quit`."""
    order = json.loads(Path(sys.argv[1]).read_text())
    name = order["sessions"][0]["vm"]
    with qemu.control(vmrecord.load(name)) as line:
        offset_s = clock_offset_s(line)
        notes = open_sessions(line.ask, order["servers"], order["sessions"])
    print("ready", flush=True)
    while (word := sys.stdin.readline().strip()) not in ("quit", ""):
        if word == "stop":
            with qemu.control(vmrecord.load(name)) as line:
                line.ask("stop")
    with qemu.control(vmrecord.load(name)) as line:
        line.send("report")
        told = list(iter(line.receive, "done"))
    report = read_report(told, moves(name), offset_s)
    Path(sys.argv[2]).write_text(json.dumps({n: note | report[n] for n, note in notes.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
