"""Applying records to a zone, with an outcome for every one of them.

An entry that exists (EEXIST) has four readings, told apart by asking the kernel what it holds:
the same session with the same translation (identical: updated), the same session with another one and
not ASSURED (an artefact of a packet that came before the state: replaced), the same with another one and
ASSURED (refused), and another session on the same address and port (refused, named). No port is ever
changed and nothing is deleted but an artefact of the very session that is applied.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack.delete import delete_by_id
from ovnmig.conntrack.dump import check_zones
from ovnmig.conntrack.entry import describe, describe_message
from ovnmig.conntrack.hashing import Hashes
from ovnmig.conntrack.lookup import Found, look_up
from ovnmig.conntrack.messages import HEADER_LEN, MessageFlag, Status
from ovnmig.conntrack.outcome import Outcome
from ovnmig.conntrack.program import Program
from ovnmig.conntrack.records import Batch, Group
from ovnmig.conntrack.socket import SEND_MAX, NetlinkSocket
from ovnmig.conntrack.transform import Chunk, Transformer

TABLE_FULL: Final = "the connection table is full"
OTHER_TRANSLATION: Final = "the session lives here with another translation"
HELD: Final = "another session holds the address and port"
NO_MASTER: Final = "the master connection is not in the zone"
NO_HELPER: Final = "the helper is not available"
_REASONS: Final = {
    errno.ENOMEM: TABLE_FULL,
    errno.ENOSPC: "the hash chain is too long",
    errno.ENOENT: NO_MASTER,
    errno.EOPNOTSUPP: NO_HELPER,
}
_ATTEMPTS: Final = 3
_LIVE_BITS: Final = int(Status.SEEN_REPLY | Status.ASSURED)
_CREATE: Final = MessageFlag.REQUEST | MessageFlag.CREATE | MessageFlag.EXCL


Owned = Hashes | Callable[[], Hashes] | None


@dataclass(slots=True)
class _Sent:
    """Rows of a group by what the kernel said to a request; rows it accepted are in none."""

    errors: dict[int, int]
    unsure: list[int]
    unsent: int


class Applier:
    """Writes records into zones of the namespace of its socket."""

    def __init__(self, sock: NetlinkSocket, transformer: Transformer | None = None) -> None:
        self._sock = sock
        self._reader = transformer or Transformer()
        self._full = False

    def apply(
        self,
        batch: Batch,
        zone: int,
        *,
        update: bool = True,
        room: int | None = None,
        owned: Owned = None,
    ) -> Outcome:
        """Creates what is not there and says what became of each record.

        ``update`` writes timeout, state, mark and labels of identical entries; pass False once the
        target's own are newer (traffic runs there). ``room`` is how many entries may be created:
        of a batch that is larger those with the longest remaining timeout are tried, the rest is
        refused. ``owned`` are keys of copies that an earlier call of ours made (or a function that
        gives them when they are needed, which is seldom): such an entry gives way to a session reborn
        with the same tuple even when it is ASSURED. Masters go first.
        """
        check_zones([zone])
        out = Outcome()
        if room is not None and len(batch) > room:
            batch = _newest(batch, room, out)
        masters, children = batch.masters_first()
        for group in masters:
            self._apply(group, zone, update, owned, out)
        waiting = list(children)
        while waiting:
            before = sum(map(len, waiting))
            waiting = [
                left for group in waiting if (left := self._apply(group, zone, update, owned, out, True))
            ]
            if sum(map(len, waiting)) == before:
                for group in waiting:
                    self._refuse(out, group, range(len(group)), NO_MASTER)
                break
        return out

    def refresh(self, batch: Batch, zone: int) -> Outcome:
        """Updates entries known to be identical copies, in one pass; creates those that are gone."""
        check_zones([zone])
        out = Outcome()
        for group in batch:
            gone = self._update(group, zone)
            out.identical += len(group) - int(gone.sum())
            if gone.any():
                self._apply(group.pick(gone), zone, True, None, out)
        return out

    def _apply(
        self,
        group: Group,
        zone: int,
        update: bool,
        owned: Owned,
        out: Outcome,
        keep_orphans: bool = False,
    ) -> Group | None:
        """Applies a group; with ``keep_orphans`` returns those whose master is not there yet."""
        sent = self._send(group, group.shape.create, zone, _CREATE)
        clashes = [row for row, code in sent.errors.items() if code == errno.EEXIST]
        orphans = [row for row, code in sent.errors.items() if code == errno.ENOENT and keep_orphans]
        out.created += len(group) - len(sent.errors) - len(sent.unsure) - sent.unsent
        for row, code in sent.errors.items():
            if code != errno.EEXIST and not (code == errno.ENOENT and keep_orphans):
                self._refuse(out, group, [row], _reason(code))
        if sent.unsent:
            self._settle_unsent(
                group.pick(np.arange(len(group) - sent.unsent, len(group))), zone, update, out
            )
        if sent.unsure:
            self._settle_unsure(group.pick(np.array(sent.unsure, dtype=np.intp)), zone, owned, out)
        if clashes:
            rows = np.array(sorted(clashes), dtype=np.intp)
            self._settle(group.pick(rows), zone, update, owned, out)
        return group.pick(np.array(orphans, dtype=np.intp)) if orphans else None

    def _send(self, group: Group, program: Program, zone: int, flags: int) -> _Sent:
        out = _Sent({}, [], 0)
        count = len(group)
        start = 0
        while start < count:
            size = 1 if self._full else SEND_MAX
            part = group.values[start : start + size]
            first = self._sock.take_seq(part.shape[0])
            errors, _, lost = self._sock.transact(program.build(part, zone, flags, first))
            for seq, code in errors.items():
                out.errors[start + seq - first] = code
            if lost:
                rows = range(start, start + part.shape[0])
                out.unsure.extend(row for row in rows if row not in out.errors)
            start += part.shape[0]
            self._full = errno.ENOMEM in errors.values()
            if self._full:
                out.unsent = count - start
                break
        return out

    def _settle_unsure(self, group: Group, zone: int, owned: Owned, out: Outcome) -> None:
        """Answers were lost: what is there with our translation was created, the rest is tried again."""
        live = look_up(self._sock, group, zone, self._reader)
        ours = live.present & (live.identity == group.identities())
        out.created += int(ours.sum())
        for row in np.flatnonzero(~ours):
            self._apply(group.pick(np.array([row], dtype=np.intp)), zone, False, owned, out)

    def _settle_unsent(self, group: Group, zone: int, update: bool, out: Outcome) -> None:
        """The table is full: no more creates, yet what is there already still counts and is updated."""
        live = look_up(self._sock, group, zone, self._reader)
        ours = live.present & (live.identity == group.identities())
        if update and ours.any():
            self._update(group.pick(ours), zone, live.status[ours])
        out.identical += int(ours.sum())
        self._refuse(out, group, np.flatnonzero(~ours).tolist(), TABLE_FULL)

    def _settle(
        self,
        group: Group,
        zone: int,
        update: bool,
        owned: Owned,
        out: Outcome,
        attempts: int = _ATTEMPTS,
    ) -> None:
        live = look_up(self._sock, group, zone, self._reader)
        keys = group.keys()
        same = live.present & (live.key == keys)
        identical = same & (live.identity == group.identities())
        other = same & ~identical
        yields = ((live.status & int(Status.ASSURED)) == 0) | live.closed
        if owned is not None:
            yields |= np.isin(keys, owned() if callable(owned) else owned)
        if identical.any():
            chosen = group.pick(identical)
            gone = self._update(chosen, zone, live.status[identical]) if update else None
            out.identical += len(chosen)
            if gone is not None and gone.any():
                out.identical -= int(gone.sum())
                self._retry_once(chosen.pick(gone), zone, out, replaced=False)
        if (other & yields).any():
            chosen = group.pick(other & yields)
            delete_by_id(self._sock, chosen, live.ids[other & yields], zone)
            back = self._retry(chosen, zone, out, replaced=True)
            if back is not None and attempts:
                # A packet was faster than we and made the next artefact.
                self._settle(back, zone, update, owned, out, attempts - 1)
            elif back is not None:
                self._refuse(out, back, range(len(back)), OTHER_TRANSLATION)
        for row in np.flatnonzero(other & ~yields):
            self._refuse(out, group, [int(row)], OTHER_TRANSLATION, live)
        rest = ~same
        if rest.any():
            self._settle_held(group.pick(rest), zone, out)

    def _settle_held(self, group: Group, zone: int, out: Outcome) -> None:
        """Records whose reply tuple is taken: by the session's own reversed artefact, or by another."""
        live = look_up(self._sock, group, zone, self._reader, by_reply=True)
        reply = group.shape.get_by_reply.build(group.values, zone, 0, 0).tobytes()
        size = group.shape.get_by_reply.size
        artefact = np.zeros(len(group), dtype=np.bool_)
        for row in np.flatnonzero(live.present & ((live.status & _LIVE_BITS) == 0)):
            wanted = reply[row * size + HEADER_LEN + 8 + 4 : (row + 1) * size]
            held = live.raw[int(row)][HEADER_LEN + 4 : HEADER_LEN + 4 + len(wanted)]
            artefact[row] = wanted == held
        if artefact.any():
            self._delete_raw(live, np.flatnonzero(artefact), zone)
            self._retry_once(group.pick(artefact), zone, out, replaced=True)
        free = ~live.present
        if free.any():
            self._retry_once(group.pick(free), zone, out, replaced=False)
        for row in np.flatnonzero(live.present & ~artefact):
            self._refuse(out, group, [int(row)], HELD, live)

    def _delete_raw(self, live: Found, rows: NDArray[np.intp], zone: int) -> None:
        for row in rows:
            words = np.frombuffer(live.raw[int(row)], dtype=np.uint32)
            read = self._reader.read(Chunk(words, np.zeros(1, dtype=np.intp)), frozenset({zone}))
            for held in read.zones.get(zone, ()):
                delete_by_id(self._sock, held, held.ids, zone)

    def _retry(self, group: Group, zone: int, out: Outcome, replaced: bool) -> Group | None:
        """One more create, after what stood in the way is gone; returns what met something again."""
        sent = self._send(group, group.shape.create, zone, _CREATE)
        done = len(group) - len(sent.errors) - len(sent.unsure) - sent.unsent
        if replaced:
            out.replaced += done
        else:
            out.created += done
        clashes = [row for row, code in sent.errors.items() if code == errno.EEXIST]
        for row, code in sent.errors.items():
            if code != errno.EEXIST:
                self._refuse(out, group, [row], _reason(code))
        if sent.unsent:
            self._refuse(out, group, range(len(group) - sent.unsent, len(group)), TABLE_FULL)
        if sent.unsure:
            self._settle_unsure(group.pick(np.array(sent.unsure, dtype=np.intp)), zone, None, out)
        return group.pick(np.array(sorted(clashes), dtype=np.intp)) if clashes else None

    def _retry_once(self, group: Group, zone: int, out: Outcome, replaced: bool) -> None:
        back = self._retry(group, zone, out, replaced)
        if back is not None:
            self._refuse(out, back, range(len(back)), HELD)

    def _update(
        self, group: Group, zone: int, live_status: NDArray[np.uint32] | None = None
    ) -> NDArray[np.bool_]:
        """Updates live entries, True where one is gone. Never clears SEEN_REPLY or ASSURED.

        Where the target has no labels the kernel says ENOSPC, after it took everything else.
        """
        status = group.values[:, group.shape.at("status")].copy().view(">u4").astype(np.uint32)
        live = np.full(len(group), _LIVE_BITS, dtype=np.uint32) if live_status is None else live_status
        keeps = (live & _LIVE_BITS & ~status) == 0
        gone = np.zeros(len(group), dtype=np.bool_)
        shape = group.shape
        for mask, program in ((keeps, shape.update), (~keeps, shape.update_without_status)):
            rows = np.flatnonzero(mask)
            if not rows.size:
                continue
            sent = self._send(group.pick(rows), program, zone, MessageFlag.REQUEST)
            for row, code in sent.errors.items():
                gone[rows[row]] = code == errno.ENOENT
        return gone

    def _refuse(
        self,
        out: Outcome,
        group: Group,
        rows: list[int] | range,
        reason: str,
        live: Found | None = None,
    ) -> None:
        for row in rows:
            holder = ""
            if live is not None and out.names_more:
                entry = describe_message(live.raw[row])
                holder = "" if entry is None else str(entry)
            out.refuse(reason, str(describe(group, row)) if out.names_more else "", holder)
        out.name(group.pick(np.array(rows, dtype=np.intp)).keys().tolist(), reason)


def _reason(code: int) -> str:
    return _REASONS.get(code, f"the kernel refused it with {errno.errorcode.get(code, code)}")


def _newest(batch: Batch, room: int, out: Outcome) -> Batch:
    """The ``room`` entries with the longest remaining timeout; the others are refused."""
    timeouts = np.concatenate([group.timeouts_s() for group in batch])
    order = np.argsort(timeouts)[::-1]
    chosen = np.zeros(timeouts.size, dtype=np.bool_)
    chosen[order[: max(room, 0)]] = True
    for group in batch.pick(~chosen):
        for row in range(len(group)):
            out.refuse(TABLE_FULL, str(describe(group, row)) if out.names_more else "")
        out.name(group.keys().tolist(), TABLE_FULL)
    return batch.pick(chosen)
