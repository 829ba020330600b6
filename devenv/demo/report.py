"""The report: one table a person understands, and the JSON that programs read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CLEAN = ("rst_seen", "icmp_unreachable_seen", "private_source_seen")
COUNTS = ("read", "created", "identical", "replaced", "refused", "lost")


def went_as_expected(session: Mapping[str, Any]) -> bool:
    """Whether what became of the session is what its run demands."""
    expected = session["expected"]
    return bool(expected == "either" or (expected == "survive") == session["survived"])


def became(session: Mapping[str, Any]) -> str:
    """What became of the session, in words."""
    return "survived" if session["survived"] else f"died: {session['why']}"


def run_problems(run: Mapping[str, Any]) -> list[str]:
    """Everything in which this run did not go as the demo demands, in words; empty when all is well."""
    sessions: Sequence[Mapping[str, Any]] = run["sessions"]
    found = [
        f"{s['name']}: expected to {s['expected']}, but it {became(s)}"
        for s in sessions
        if not went_as_expected(s)
    ]
    if run["name"] in ("transfer", "pinned", "replication"):
        found += [
            f"{s['name']}: the server saw {len(s['server_saw'])} addresses: {', '.join(s['server_saw'])}"
            for s in sessions
            if len(s["server_saw"]) != 1
        ]
        found += [
            f"{key} is {run[key]}"
            for key in ("rst_seen", "icmp_unreachable_seen", "private_source_seen")
            if run[key]
        ]
        found += [f"a move took {n} transactions" for n in run["nb_transactions"] if n > 3]
        if run["name"] == "transfer" and run["entries"]["read"] == 0:
            found.append("no entry was transferred")
    if run["name"] == "replication" and run["owner"] != run["owner_expected"]:
        found.append(f"{run['owner']} owns the gateway, {run['owner_expected']} took it over")
    if run["name"] in ("no-transfer", "no-replication"):
        dying = {s["kind"] for s in sessions if s["expected"] == "die"}
        found += [
            f"no {kind} session was expected to die: the control proves nothing"
            for kind in ("twin", "push")
            if kind not in dying
        ]
    return found


def table(run: Mapping[str, Any]) -> str:
    """The run as plain text: a line per session, then what the wire showed."""
    lines = [f"run {run['name']}: {run['says']}", ""]
    head = f"  {'session':<18} {'expected':<9} {'became':<9} {'stall':>9}  {'server saw':<30} remark"
    lines += [head, "  " + "-" * (len(head) + 10)]
    for s in run["sessions"]:
        fate = "survived" if s["survived"] else "died"
        mark = " " if went_as_expected(s) else "!"
        stall = f"{s['stall_ms']:.0f} ms" if s["survived"] else "-"
        remark = s["why"] or ("port-translated" if s["translated"] else "")
        saw = " ".join(s["server_saw"][:1]) or "-"
        if len(s["server_saw"]) > 1:
            saw += f" +{len(s['server_saw']) - 1}"
        lines.append(f"{mark} {s['name']:<18} {s['expected']:<9} {fate:<9} {stall:>9}  {saw:<30} {remark}")
    lines.append("")
    lines.append(
        f"  {run['survived']} of {run['total']} sessions survived; on the wire: {run['rst_seen']} RST, "
        f"{run['icmp_unreachable_seen']} ICMP unreachable, {run['private_source_seen']} private sources"
    )
    if run["entries"]["read"]:
        told = ", ".join(f"{run['entries'][k]} {k}" for k in COUNTS)
        lines.append(f"  conntrack entries: {told}; database transactions per move: {run['nb_transactions']}")
    if "guest_pause_ms" in run:
        told = "; ".join(f"{vm} {', '.join(map(str, ms))} ms" for vm, ms in run["guest_pause_ms"].items())
        lines.append(f"  QEMU's live migrations kept the guests standing for: {told}")
    if "takeover_ms" in run:
        took = run["takeover_ms"]
        lines.append(
            f"  the standby had the gateway {run['detection_ms']} ms after the crash; from then to the first "
            f"packet: {took['out']} ms outward, {took['in']} ms inward"
        )
    return "\n".join(lines)


def write(report: Mapping[str, Any], folder: Path, name: str = "report") -> Path:
    """Write ``<name>.json`` into ``folder`` (made if missing), complete or not at all; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.json"
    part = folder / f"{name}.json.part"
    part.write_text(json.dumps(report, indent=1) + "\n")
    part.replace(target)
    return target
