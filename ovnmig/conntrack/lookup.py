"""Batched GET: what the kernel holds under the tuples of given records."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack.messages import IPPROTO_TCP, MessageFlag, TcpState
from ovnmig.conntrack.program import Program
from ovnmig.conntrack.records import Group
from ovnmig.conntrack.socket import SEND_MAX, NetlinkSocket
from ovnmig.conntrack.transform import Chunk, Transformer


@dataclass(slots=True)
class Found:
    """Live entries by row of the group that was asked for.

    All arrays have one element per row asked for, meaningless where ``present`` is False. ``closed``:
    a TCP entry in TIME_WAIT or CLOSE. ``raw`` has the kernel's message by row.
    """

    present: NDArray[np.bool_]
    ids: NDArray[np.uint32]
    key: NDArray[np.uint64]
    identity: NDArray[np.uint64]
    status: NDArray[np.uint32]
    closed: NDArray[np.bool_]
    raw: dict[int, bytes] = field(default_factory=dict)


def look_up(
    sock: NetlinkSocket, group: Group, zone: int, transformer: Transformer, by_reply: bool = False
) -> Found:
    """Asks for every row of ``group`` by its original tuple, or by its translated reply tuple.

    The kernel finds an entry by the tuple of either direction, so the caller compares keys.
    """
    program = group.shape.get_by_reply if by_reply else group.shape.get
    count = len(group)
    found = Found(
        np.zeros(count, dtype=np.bool_),
        np.zeros(count, dtype=np.uint32),
        np.zeros(count, dtype=np.uint64),
        np.zeros(count, dtype=np.uint64),
        np.zeros(count, dtype=np.uint32),
        np.zeros(count, dtype=np.bool_),
    )
    raws = _ask(sock, program, group, zone)
    if not raws:
        return found
    numbers = list(raws)
    whole = b"".join(raws.values())
    sizes = np.fromiter((len(raw) // 4 for raw in raws.values()), dtype=np.intp, count=len(raws))
    chunk = Chunk(np.frombuffer(whole, dtype=np.uint32), np.cumsum(sizes) - sizes)
    rows = np.array(numbers, dtype=np.intp)
    read = transformer.read(chunk, frozenset({zone}))
    for live in read.zones.get(zone, ()):
        at = rows[live.order]
        found.present[at] = True
        if live.ids.size:
            found.ids[at] = live.ids
        found.key[at] = live.keys()
        found.identity[at] = live.identities()
        found.status[at] = live.values[:, live.shape.at("status")].copy().view(">u4").astype(np.uint32)
        if live.shape.spec.flow.proto == IPPROTO_TCP:
            state = live.values[:, live.shape.at("state")].copy().view(np.uint8)[::4]
            found.closed[at] = (state == TcpState.TIME_WAIT) | (state == TcpState.CLOSE)
    found.raw = raws
    return found


def _ask(sock: NetlinkSocket, program: Program, group: Group, zone: int) -> dict[int, bytes]:
    raws: dict[int, bytes] = {}
    for start in range(0, len(group), SEND_MAX):
        part = group.values[start : start + SEND_MAX]
        first = sock.take_seq(part.shape[0])
        batch = program.build(part, zone, MessageFlag.REQUEST, first)
        _, answers, lost = sock.transact(batch)
        for raw in answers:
            raws[start + int(np.frombuffer(raw, dtype=np.uint32, count=3)[2]) - first] = raw
        if lost:
            for row in range(start, start + part.shape[0]):
                if row not in raws:
                    answer = _ask_one(sock, program, group, zone, row)
                    if answer:
                        raws[row] = answer
    return raws


def _ask_one(sock: NetlinkSocket, program: Program, group: Group, zone: int, row: int) -> bytes:
    batch = program.build(group.values[row : row + 1], zone, MessageFlag.REQUEST, sock.take_seq())
    return b"".join(sock.transact(batch)[1])
