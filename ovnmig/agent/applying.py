"""Frames of a stream applied to this node's kernel, in the thread of a worker.

Only entries that a stream put here are ever deleted again, and always by tuple. A zone is never flushed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ovnmig.agent.answers import Answer, keys_of
from ovnmig.agent.frames import Frame, FrameError, Kind
from ovnmig.agent.roles import Roles
from ovnmig.agent.store import Copies
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import (
    Batch,
    Hashes,
    KeyTable,
    Ledger,
    Outcome,
    among,
    decode,
    delete_keys,
    delete_records,
    dump_zones,
    promote,
    table_stats,
)
from ovnmig.core.transfer import ZoneRef

_MODES: Final = frozenset({"live", "refresh", "newborn", "upgrade"})
_MANY: Final = 4
"""A standing stream may tell of so many times the entries that the node's table can hold."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone of this stream with the number it has here."""

    ref: ZoneRef
    number: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """What an ENTRIES frame holds, checked, with the hashes of its entries."""

    mode: str
    batch: Batch
    keys: Hashes
    identities: Hashes


def parse(frame: Frame) -> Parsed:
    """Read and check an ENTRIES frame. Raises FrameError, BadRecords."""
    mode = frame.text("mode", 32)
    if mode not in _MODES:
        raise FrameError(f"ENTRIES of mode {mode!r} are not known here")
    batch = decode(frame.data)
    return Parsed(mode, batch, batch.keys(), batch.identities())


class Applying:
    """The kernel's side of one stream. Every call blocks; all belong into the worker's thread."""

    def __init__(
        self, udn: str, copies: Copies, worker: Worker, roles: Roles, zones: Sequence[Zone], *, keep: bool
    ) -> None:
        """``keep``: a standing stream, whose entries are remembered to tell what it does not have."""
        self._udn = udn
        self._copies = copies
        self._worker = worker
        self._roles = roles
        self._sent = {zone.ref.key: KeyTable() for zone in zones} if keep else {}
        self._due: dict[str, Zone] = {}
        self._keep = keep
        self.applied = 0

    def entries(self, zone: Zone, frame: Frame, parsed: Parsed) -> Frame:
        """Apply an ENTRIES frame; its answer says what became of every entry."""
        with self._copies.lock(self._udn):
            ledger = self._copies.of(self._udn, zone.ref.key)
            answer = Answer()
            for chosen, ours, room in self._parts(ledger, parsed):
                if not chosen.keys.size:
                    continue
                outcome = self._apply(chosen, zone.number, ours, room, ledger)
                answer.add(outcome)
                keys, identities = chosen.keys, chosen.identities
                if outcome.not_applied:
                    done = ~among(keys, outcome.not_applied)
                    keys, identities = keys[done], identities[done]
                ledger.note(keys, identities)
            sent = self._sent.get(zone.ref.key)
            if sent is not None:
                sent.add(parsed.keys)
                if len(sent) > _MANY * table_stats().max:
                    raise FrameError(f"{len(sent)} entries are more than any table here can hold")
        self.applied += answer.applied
        return answer.frame(frame.seq)

    def _parts(self, ledger: Ledger, parsed: Parsed) -> list[tuple[Parsed, bool, int | None]]:
        """The entries with whether they are copies of ours, and the room that limits the others."""
        room = table_stats().room
        if parsed.mode == "live" and room >= len(parsed.batch):
            return [(parsed, True, None)]
        ours = ledger.holds(parsed.keys)
        return [(_pick(parsed, ours), True, None), (_pick(parsed, ~ours), False, room)]

    def _apply(self, part: Parsed, number: int, ours: bool, room: int | None, ledger: Ledger) -> Outcome:
        applier = self._worker.applier
        if part.mode in ("newborn", "upgrade") and self._roles.owner(self._udn):
            # Its next packet comes here, and the kernel would judge it invalid for a session that only began.
            part = replace(part, batch=promote(part.batch))
        if part.mode == "live":
            return applier.apply(part.batch, number, room=room, owned=self._owned(ledger, part.keys))
        if part.mode == "refresh" and ours:
            return applier.refresh(part.batch, number)
        if part.mode == "upgrade" and ours:
            return applier.apply(part.batch, number)
        return applier.apply(part.batch, number, update=False, room=room)

    def _owned(self, ledger: Ledger, keys: Hashes) -> Callable[[], Any]:
        """Which of the keys are copies, asked only when one of them clashes. In the zone of a standby all
        are, also those that an agent before this one took."""
        if self._keep and self._roles.surely_elsewhere(self._udn):
            return lambda: keys
        return lambda: keys[ledger.holds(keys)]

    def delete(self, zone: Zone, frame: Frame) -> Frame:
        """Follow a DELETE frame. Raises FrameError, BadRecords before anything is deleted."""
        form = frame.text("form", 32)
        if form not in ("records", "keys", "others"):
            raise FrameError(f"DELETE of form {form!r} is not known here")
        with self._copies.lock(self._udn):
            done = self._delete(zone, frame, form)
        return Frame(Kind.ACK, frame.seq, {"deleted": done, "reasons": []})

    def _delete(self, zone: Zone, frame: Frame, form: str) -> int:
        ledger = self._copies.of(self._udn, zone.ref.key)
        socket, reader = self._worker.socket, self._worker.transformer
        sent = self._sent.get(zone.ref.key)
        if form == "records":
            batch = decode(frame.data)
            if sent is not None:
                sent.remove(batch.keys())
            ours = batch.pick(ledger.holds(batch.keys()))
            chosen = ours.keys()
            ledger.forget(chosen)  # first: its end, which the kernel tells too, is no loss
            return delete_records(socket, ours, zone.number, reader)
        if form == "keys":
            keys = keys_of(frame.data)
            if sent is not None:
                sent.remove(keys)
            chosen = keys[ledger.holds(keys)]
        else:
            chosen = self._others(zone, ledger)
        ledger.forget(chosen)
        return delete_keys(socket, zone.number, chosen, reader)

    def _others(self, zone: Zone, ledger: Ledger) -> Hashes:
        """Keys of what the source has no more. Before this agent's time copies came too, and nothing but
        copies is in the zone of a gateway that is surely elsewhere. An agent that has just been started does
        not know where it is: what it finds beyond its ledger is due as soon as it does."""
        key, there = zone.ref.key, ledger
        if self._roles.surely_elsewhere(self._udn):
            there = Ledger()
            for _, batch in dump_zones(self._worker.socket, [zone.number], self._worker.transformer):
                there.record(batch)
            sent = self._sent.pop(key, None)
            self._due.pop(key, None)
        else:
            sent = self._sent.get(key)
            if sent is not None:
                self._due[key] = zone
        keys = there.keys
        return keys[:0] if sent is None else keys[~sent.holds(keys)]

    def catch_up(self) -> None:
        """Delete what the source has no more and this agent could not tell from others' entries before."""
        if self._due and self._roles.surely_elsewhere(self._udn):
            with self._copies.lock(self._udn):
                for zone in list(self._due.values()):
                    ledger = self._copies.of(self._udn, zone.ref.key)
                    chosen = self._others(zone, ledger)
                    ledger.forget(chosen)
                    delete_keys(self._worker.socket, zone.number, chosen, self._worker.transformer)


def _pick(parsed: Parsed, mask: Any) -> Parsed:
    return Parsed(parsed.mode, parsed.batch.pick(mask), parsed.keys[mask], parsed.identities[mask])
