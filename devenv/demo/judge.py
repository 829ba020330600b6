"""The judge: pure functions from what both ends and the wire recorded to what is said of each session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from itertools import pairwise

from devenv.demo.capture import RST, TCP, Packet
from devenv.demo.plan import RESUME_S, Session

AROUND_S = 10.0
"""A stall belongs to a move if it begins before the move has been over for this long."""


@dataclass(frozen=True, slots=True)
class Move:
    """From the first order of a leg to the moment the last VM and the gateway had arrived (Unix seconds)."""

    began: float
    ended: float


@dataclass(slots=True)
class Record:
    """What was recorded of one session. ``planned_end`` is when the run told it to finish."""

    session: Session
    to_vm: list[float]
    to_server: list[float]
    opened: float
    settled: float
    """When all sessions of the run were open: the baseline begins."""
    planned_end: float
    ended: bool
    checksum_right: bool | None = None
    error: str = ""
    vm_address: str = ""
    vm_port: int = 0
    accepted: tuple[str, ...] = ()
    """``address:port`` as the server's own socket saw them."""
    server_saw: list[str] = field(default_factory=list)

    @property
    def translated(self) -> bool:
        """The server saw another source port than the VM used."""
        return any(int(peer.rsplit(":", 1)[1]) != self.vm_port for peer in self.accepted)

    def directions(self) -> dict[str, list[float]]:
        """Arrival times of the directions that count for this kind."""
        if self.session.kind in ("download", "push"):
            return {"to-vm": self.to_vm}
        return {"to-vm": self.to_vm, "to-server": self.to_server}


def survived(record: Record, moves: Sequence[Move]) -> str:
    """Empty when the session survived every move, else the reason in words."""
    if record.error and record.session.kind != "udp":
        return record.error
    ends = [*(m.began for m in moves[1:]), record.planned_end]
    for number, (move, until) in enumerate(zip(moves, ends, strict=False), 1):
        for name, times in record.directions().items():
            if not any(move.ended < t <= move.ended + RESUME_S for t in times):
                return f"no data {name} within {RESUME_S:.0f} s of move {number}"
            if record.session.kind == "udp" and (hole := silent_second(times, move.ended + 1, until)):
                return (
                    f"no datagram {name} in a second that began {hole - move.ended:.0f} s after move {number}"
                )
    if not record.ended:
        return "did not reach its planned end"
    if record.checksum_right is False:
        return "the checksum is wrong"
    return ""


def silent_second(times: Sequence[float], since: float, until: float) -> float:
    """Start of the first whole second in [since, until) without an arrival, 0 if there is none."""
    start = since
    while start + 1 <= until:
        if not any(start <= t < start + 1 for t in times):
            return start
        start += 1
    return 0.0


def gaps(times: Sequence[float], since: float, until: float) -> list[tuple[float, float]]:
    """(begin, length) of the gaps between arrivals overlapping [since, until]; silence to the end is one."""
    ordered = [*sorted(times)]
    if not ordered or ordered[-1] < until:
        ordered.append(until)
    return [(a, b - a) for a, b in pairwise(ordered) if b > since and a < until]


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which ``share`` of ``values`` lies (nearest rank); 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def stall_ms(record: Record, moves: Sequence[Move]) -> float:
    """Longest gap around a move in a direction that counts, less the 99th percentile before the first."""
    worst = 0.0
    first = min((m.began for m in moves), default=record.planned_end)
    for times in record.directions().values():
        usual = percentile((length for _, length in gaps(times, record.settled, first)), 0.99)
        for move in moves:
            until = min(move.ended + AROUND_S, record.planned_end)
            longest = max(
                (length for _, length in gaps(times, move.began, until)), default=until - move.began
            )
            worst = max(worst, longest - usual)
    return round(max(0.0, worst) * 1000, 1)


@dataclass(frozen=True, slots=True)
class Wire:
    """Counts of packets that belong to a recorded session between its start and its planned end."""

    rst: int
    unreachable: int
    private_source: int


def wire_counts(
    records: Sequence[Record], vm_side: Sequence[Packet], outside: Sequence[Packet], private: Sequence[str]
) -> Wire:
    """Count RST, ICMP(v6) unreachable and private sources; note in each record who the server saw.

    A packet on the provider network whose tuple is unknown is a session's if the VM's side saw the same
    sequence and acknowledgement numbers from it: that finds a flow whose translation changed on the way.
    """
    by_vm = {(r.vm_address, r.vm_port, r.session.server_port): r for r in records}
    by_peer = {(peer, r.session.server_port): r for r in records for peer in r.accepted}
    marks = {
        (p.target_port, p.seq, p.ack): by_vm[key]
        for p in vm_side
        if p.protocol == TCP
        and not p.flags & RST
        and (key := (p.source, p.source_port, p.target_port)) in by_vm
    }
    for record in records:
        record.server_saw = list(record.accepted)
    for p in outside:
        peer = f"{p.source}:{p.source_port}"
        found = by_peer.get((peer, p.target_port)) or marks.get((p.target_port, p.seq, p.ack))
        if found is not None and p.protocol == TCP and not p.flags & RST and peer not in found.server_saw:
            found.server_saw.append(peer)

    def owner(p: Packet) -> Record | None:
        for a, a_port, b_port in (
            (p.source, p.source_port, p.target_port),
            (p.target, p.target_port, p.source_port),
        ):
            found = by_vm.get((a, a_port, b_port)) or by_peer.get((f"{a}:{a_port}", b_port))
            if found is not None:
                return found
        return marks.get((p.target_port, p.seq, p.ack))

    rst = unreachable = 0
    for p in (*vm_side, *outside):
        of = owner(p.quoted) if p.is_unreachable and p.quoted is not None else owner(p)
        if of is None or not of.opened <= p.at < of.planned_end:
            continue
        rst += p.protocol == TCP and bool(p.flags & RST)
        unreachable += p.is_unreachable
    networks = [ip_network(n) for n in private]
    leaked = sum(any(ip_address(p.source) in n for n in networks) for p in outside)
    return Wire(rst, unreachable, leaked)


def describe(record: Record, expected: str, moves: Sequence[Move]) -> Mapping[str, object]:
    """The session's entry of the report."""
    why = survived(record, moves)
    session = record.session
    return {
        "name": session.name,
        "kind": session.kind,
        "family": session.family,
        "vm": session.vm,
        "expected": expected,
        "survived": not why,
        "why": why,
        "translated": record.translated,
        "stall_ms": stall_ms(record, moves),
        "server_saw": record.server_saw,
    }
