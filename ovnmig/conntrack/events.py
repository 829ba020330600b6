"""Following a zone: NEW, UPDATE and DESTROY events, coalesced into what to delete and what to write.

The kernel sends one message per event and drops it when the buffer is full (every event counts 1,280
bytes of it). NETLINK_BROADCAST_ERROR makes the kernel repeat lost DESTROY events, so only entries that
are too new can be missing, and the loss is reported (ENOBUFS): then the reader has to dump again.
OVS announces no change of TCP state: compare a dump now and then (see ``diff``).
"""

from __future__ import annotations

import errno
import select
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack import messages as m
from ovnmig.conntrack.dump import check_zones
from ovnmig.conntrack.records import Batch
from ovnmig.conntrack.socket import SO_RCVBUFFORCE, force_buffer
from ovnmig.conntrack.transform import Chunk, Read, Transformer

EVENT_BUFFER: Final = 64 << 20
"""Asked for; the kernel doubles it: room for some 105,000 events."""
EVENTS_SYSCTL: Final = Path("/proc/sys/net/netfilter/nf_conntrack_events")
_ARENA_BYTES: Final = 2 << 20
_MESSAGE_MAX: Final = 1 << 13


@dataclass(slots=True)
class ZoneEvents:
    """Events of one zone in one reading: delete ``gone`` first, then apply ``present``.

    A session that ended and began again is in both. ``gone`` holds whole records, to be deleted
    exactly (``delete_records``) on the other side.
    """

    gone: Batch
    present: Batch


@dataclass(slots=True)
class Events:
    """One reading. ``resync`` says events were lost: dump and compare. ``count`` is raw messages."""

    zones: dict[int, ZoneEvents] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    resync: bool = False
    count: int = 0


def ensure_events(path: Path = EVENTS_SYSCTL) -> bool:
    """Sets nf_conntrack_events=1 in this namespace; returns whether it was not 1 before.

    With 2 (the default) an entry born while nobody listens, in any namespace of the machine, never
    emits an event, even later. Entries older than the change may thus be silent: reconcile by dump.
    Raises OSError when not allowed.
    """
    if path.read_text().strip() == "1":
        return False
    path.write_text("1\n")
    return True


class EventSocket:
    """Subscribes when made: make it before the dump it belongs to, so that nothing falls between.

    ``only_ends``: DESTROY events alone. The kernel then makes no others for this socket; one for each new
    entry would make an insertion cost half as much again.
    """

    def __init__(
        self,
        zones: Iterable[int],
        transformer: Transformer | None = None,
        buffer: int = EVENT_BUFFER,
        *,
        only_ends: bool = False,
    ) -> None:
        self._zones = check_zones(zones)
        self._reader = transformer or Transformer()
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, m.NETLINK_NETFILTER
        )
        try:
            force_buffer(self._socket, SO_RCVBUFFORCE, buffer)
            self._socket.setsockopt(m.SOL_NETLINK, m.NETLINK_BROADCAST_ERROR, 1)
            self._socket.bind((0, 0))
            others = () if only_ends else (m.NFNLGRP_CONNTRACK_NEW, m.NFNLGRP_CONNTRACK_UPDATE)
            for group in (*others, m.NFNLGRP_CONNTRACK_DESTROY):
                self._socket.setsockopt(m.SOL_NETLINK, m.NETLINK_ADD_MEMBERSHIP, group)
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise
        self._arena = np.empty(_ARENA_BYTES // 4, dtype=np.uint32)

    def fileno(self) -> int:
        """For select and event loops: readable means ``read`` has something."""
        return self._socket.fileno()

    def set_zones(self, zones: Iterable[int]) -> None:
        """Changes which zones are followed, from the next reading on."""
        self._zones = check_zones(zones)

    def close(self) -> None:
        """Ends the subscription."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, timeout_s: float = 0.0) -> Events:
        """All events waiting (up to about two megabytes of them); waits at most ``timeout_s`` for one."""
        out = Events()
        if timeout_s > 0:
            select.select([self._socket], [], [], timeout_s)
        view = self._arena.data.cast("B")
        used = 0
        starts: list[int] = []
        receive = self._socket.recv_into
        while used + _MESSAGE_MAX <= _ARENA_BYTES:
            try:
                size = receive(view[used:], _MESSAGE_MAX)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                out.resync = True
                continue
            starts.append(used >> 2)
            used += (size + 3) & ~3
        out.count = len(starts)
        if starts:
            chunk = Chunk(self._arena[: used >> 2], np.array(starts, dtype=np.intp))
            self._sort(chunk, out)
        return out

    def _sort(self, chunk: Chunk, out: Events) -> None:
        kinds = (
            chunk.words[chunk.offsets + 1] & 0xFFFF
            if np.little_endian
            else chunk.words[chunk.offsets + 1] >> 16
        )
        read = self._reader.read(chunk, self._zones)
        out.skipped.update(read.skipped)
        for zone in read.zones:
            out.zones[zone] = _coalesce(read, zone, kinds == m.CT_DELETE)


def _coalesce(read: Read, zone: int, is_destroy: NDArray[np.bool_]) -> ZoneEvents:
    """Per session: its last DESTROY, and its last NEW or UPDATE unless a DESTROY came after it."""
    batch = read.batch(zone)
    order = np.concatenate([group.order for group in batch])
    keys = batch.keys()
    destroyed = is_destroy[order]
    _, session = np.unique(keys, return_inverse=True)
    last_end = np.full(session.max() + 1, -1, dtype=np.intp)
    last_life = last_end.copy()
    np.maximum.at(last_end, session[destroyed], order[destroyed])
    np.maximum.at(last_life, session[~destroyed], order[~destroyed])
    gone = destroyed & (order == last_end[session])
    present = ~destroyed & (order == last_life[session]) & (order > last_end[session])
    return ZoneEvents(batch.pick(gone), batch.pick(present))
