"""The receiving side of a stream: applies entries to this node's zones and tells what became of each.

Only entries that a stream put here are ever deleted again, and always by tuple. A zone is never flushed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, ParamSpec

from ovnmig.agent import frames, zones
from ovnmig.agent.frames import Frame, FrameError, Kind
from ovnmig.agent.link import Link, LinkLost, PeerRefused
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.roles import Roles
from ovnmig.agent.store import Copies, Fence, StaleEpoch, known, split_known
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import (
    BadRecords,
    Batch,
    Ledger,
    Outcome,
    decode,
    delete_keys,
    delete_records,
    dump_zones,
    table_stats,
)
from ovnmig.conntrack import missing_identities as read_back
from ovnmig.core.transfer import ZoneKind, ZoneRef
from ovnmig.pki import PkiError, Role

P = ParamSpec("P")
WINDOW: Final = 8
_PART: Final = 1000
"""Records applied at once. Not above the refusals that keep their text, so every one has its reason."""
_WORDS: Final = 20
_MISSING_MAX: Final = 200_000
_NOT_APPLIED = struct.Struct("<QB")


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone of this stream with the number it has here."""

    ref: ZoneRef
    number: int


class Resync(Exception):
    """What was received can no longer be applied in order; the source must begin anew."""


class Sink:
    """One stream from HELLO to its end. ``view`` gives the local database at the moment of asking."""

    def __init__(
        self,
        chassis: str,
        view: Callable[[], LocalView],
        copies: Copies,
        fence: Fence,
        worker: Worker,
        roles: Roles,
    ) -> None:
        self._chassis = chassis
        self._view = view
        self._copies = copies
        self._fence = fence
        self._worker = worker
        self._roles = roles
        self._keep = False
        self._epoch = 0
        self._sent: dict[str, Ledger] = {}
        self.udn = ""
        self.applied = 0
        self._zones: list[Zone] = []

    async def serve(self, link: Link) -> str:
        """Answer frames until the stream ends; returns why it ended, in words."""
        try:
            await self._greet(link, await link.receive())
            expected = 1
            while True:
                frame = await link.receive()
                if frame.kind not in (Kind.ENTRIES, Kind.DELETE, Kind.SYNC):
                    raise FrameError(f"a source does not send {frame.kind.name} here")
                if frame.seq != expected:
                    raise Resync(f"frame {frame.seq} came where {expected} was due")
                expected += 1
                await link.send(await self._answer(frame))
        except Resync as gap:
            await link.send(Frame(Kind.RESYNC, 0, {"reason": str(gap)}))
            await link.close()
            return f"resync: {gap}"
        except (FrameError, BadRecords) as error:
            await link.refuse("format", str(error))
            return f"refused: {error}"
        except _Refused as error:
            await link.refuse(error.code, str(error))
            return f"refused: {error}"
        except (LinkLost, PeerRefused) as error:
            await link.close()
            return str(error)

    async def _greet(self, link: Link, hello: Frame) -> None:
        if hello.kind is not Kind.HELLO:
            raise FrameError(f"a stream begins with HELLO, not with {hello.kind.name}")
        try:
            frames.check_version(hello)
        except FrameError as error:
            raise _Refused("version", str(error)) from None
        try:
            peer = link.peer()
        except PkiError as error:
            raise _Refused("identity", str(error)) from None
        claimed = hello.text("chassis")
        if peer.role is not Role.CHASSIS or peer.name != claimed:
            raise _Refused(
                "identity", f"the stream claims chassis {claimed!r}, its certificate is for {peer}"
            )
        self.udn = hello.text("udn")
        self._epoch = hello.number("epoch")
        self._keep = hello.fields.get("keep") is True
        try:
            self._fence.pass_through(self.udn, self._epoch, f"a stream from {claimed!r}")
        except StaleEpoch as error:
            raise _Refused("epoch", str(error)) from None
        self._check_role()
        refs = [_zone_ref(item) for item in hello.items("zones", 64)]
        view = self._view()
        numbers = zones.present(view, self._chassis, refs)
        problems = zones.shared(view, self._chassis, refs)
        if problems:
            raise _Refused("zones", f"on chassis {self._chassis!r} {'; '.join(problems)}")
        self._zones = [Zone(ref, numbers[ref.key]) for ref in refs if ref.key in numbers]
        if self._keep:
            self._copies.keep(self.udn, tuple(zone.ref for zone in self._zones))
            self._sent = {zone.ref.key: Ledger() for zone in self._zones}
        welcome = {
            "major": frames.MAJOR,
            "minor": frames.MINOR,
            "chassis": self._chassis,
            "window": WINDOW,
            "zones": {zone.ref.key: index for index, zone in enumerate(self._zones)},
            "missing": [ref.key for ref in refs if ref.key not in numbers],
        }
        await link.send(Frame(Kind.WELCOME, 0, welcome))

    def _check_role(self) -> None:
        """A standing stream writes to standbys only: where the gateway is, the sessions are live ones."""
        if not self._keep:
            return
        if self._epoch < self._fence.highest(self.udn):
            raise _Refused("epoch", f"a stream of a later epoch for UDN {self.udn!r} has come")
        objection = self._roles.objection(self.udn, self._epoch)
        if objection:
            raise _Refused("owner", f"chassis {self._chassis!r} {objection}")

    async def _answer(self, frame: Frame) -> Frame:
        self._check_role()
        if frame.kind is Kind.SYNC:
            for zone in self._zones:
                self._check_number(zone)
            return await self._worker.run(self._alone, self._sync, frame)
        index = frame.number("zone")
        if index >= len(self._zones):
            raise FrameError(f"{frame.kind.name} for zone {index}, which WELCOME did not list")
        zone = self._zones[index]
        self._check_number(zone)
        call = self._entries if frame.kind is Kind.ENTRIES else self._delete
        return await self._worker.run(self._alone, call, zone, frame)

    def _alone(self, call: Callable[P, Frame], *args: P.args, **kwargs: P.kwargs) -> Frame:
        with self._copies.lock(self.udn):
            return call(*args, **kwargs)

    def _check_number(self, zone: Zone) -> None:
        """A number is good for one look only: OVN may give the zone another, after a flush."""
        now = zones.number(self._view(), self._chassis, zone.ref)
        if now != zone.number:
            raise Resync(f"zone {zone.ref.key!r} was {zone.number} here and is now {now or 'gone'}")

    def _entries(self, zone: Zone, frame: Frame) -> Frame:
        mode = frame.text("mode", 32)
        batch = decode(frame.data)
        ledger = self._copies.of(self.udn, zone.ref.key)
        total, reasons, words = Outcome(), _Reasons(), list[str]()
        for part in batch.split(_PART):
            ours, others = split_known(ledger, part)
            for chosen, room in ((ours, None), (others, table_stats().room)):
                if not len(chosen):
                    continue
                outcome = self._apply(chosen, zone.number, mode, room, lambda: ledger.keys)
                total.add(outcome)
                words += _describe(outcome)[: _WORDS - len(words)]
                reasons.add(outcome)
                ledger.record(_without(chosen, outcome.not_applied))
            if zone.ref.key in self._sent:
                self._sent[zone.ref.key].record(part)
        self.applied += total.applied
        fields: dict[str, Any] = {
            "created": total.created,
            "identical": total.identical,
            "replaced": total.replaced,
            "reasons": reasons.names,
            "refused": words,
        }
        return Frame(Kind.ACK, frame.seq, fields, bytes(reasons.data))

    def _apply(self, batch: Batch, number: int, mode: str, room: int | None, owned: Any) -> Outcome:
        applier = self._worker.applier
        if mode == "live":
            return applier.apply(batch, number, room=room, owned=owned)
        if mode == "refresh" and room is None:
            return applier.refresh(batch, number)
        if mode == "upgrade" and room is None:
            return applier.apply(batch, number)
        if mode in ("newborn", "upgrade", "refresh"):
            return applier.apply(batch, number, update=False, room=room)
        raise FrameError(f"ENTRIES of mode {mode!r} are not known here")

    def _delete(self, zone: Zone, frame: Frame) -> Frame:
        ledger = self._copies.of(self.udn, zone.ref.key)
        form = frame.text("form", 32)
        socket, reader = self._worker.socket, self._worker.transformer
        if form == "records":
            ours, _ = split_known(ledger, decode(frame.data))
            done = delete_records(socket, ours, zone.number, reader)
            ledger.forget(ours.keys())
        elif form == "keys":
            wanted = set(_keys(frame.data))
            keys = ledger.keys
            chosen = keys[[number in wanted for number in keys.tolist()]] if keys.size else keys
            done = delete_keys(socket, zone.number, chosen, reader)
            ledger.forget(chosen)
        elif form == "others":
            others = self._others(zone, ledger)
            done = delete_keys(socket, zone.number, others, reader)
            ledger.forget(others)
        else:
            raise FrameError(f"DELETE of form {form!r} is not known here")
        return Frame(Kind.ACK, frame.seq, {"deleted": done, "reasons": []})

    def _others(self, zone: Zone, ledger: Ledger) -> Any:
        """Keys of what the source has no more. Before this agent's time copies came too, and nothing but
        copies is in the zone of a gateway that is surely elsewhere."""
        there = ledger
        if self._roles.surely_elsewhere(self.udn):
            there = Ledger()
            for _, batch in dump_zones(self._worker.socket, [zone.number], self._worker.transformer):
                there.record(batch)
        return there.keys[~known(self._sent.pop(zone.ref.key, there), there.keys)]

    def _sync(self, frame: Frame) -> Frame:
        counts: list[list[int]] = []
        data = bytearray()
        more = False
        for index, zone in enumerate(self._zones if frame.fields.get("verify") is True else ()):
            ledger = self._copies.of(self.udn, zone.ref.key)
            missing = read_back(self._worker.socket, zone.number, ledger.identities, self._worker.transformer)
            if not missing.size:
                continue
            absent = set(missing.tolist())
            gone = ledger.keys[[one in absent for one in ledger.identities.tolist()]]
            room = _MISSING_MAX - len(data) // 8
            more = more or gone.size > room
            gone = gone[:room]
            ledger.forget(gone)
            counts.append([index, int(gone.size)])
            data += gone.astype("<u8").tobytes()
        fields = {"round": frame.number("round"), "more": more, "zones": counts}
        return Frame(Kind.SYNCED, frame.seq, fields, bytes(data))


class _Refused(Exception):
    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class _Reasons:
    """The entries that were not applied, as key and number of the reason."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.data = bytearray()

    def add(self, outcome: Outcome) -> None:
        for key, refusal in zip(outcome.not_applied, outcome.refusals, strict=True):
            if refusal.reason not in self.names:
                self.names.append(refusal.reason)
            self.data += _NOT_APPLIED.pack(key, self.names.index(refusal.reason))


def not_applied(ack: Frame) -> dict[int, str]:
    """Key -> reason of an ACK's refused entries. Raises FrameError."""
    names = ack.items("reasons", 255)
    if len(ack.data) % _NOT_APPLIED.size:
        raise FrameError("ACK ends inside a refused entry")
    out = {}
    for key, index in _NOT_APPLIED.iter_unpack(ack.data):
        if index >= len(names) or not isinstance(names[index], str):
            raise FrameError("ACK gives a reason it does not name")
        out[key] = names[index]
    return out


def vanished(synced: Frame) -> dict[int, list[int]]:
    """Zone index -> keys of a SYNCED. Raises FrameError."""
    keys = _keys(synced.data)
    out: dict[int, list[int]] = {}
    for item in synced.items("zones", 64):
        if not (isinstance(item, list) and len(item) == 2 and all(type(one) is int for one in item)):
            raise FrameError("SYNCED lists a zone that is no pair of numbers")
        out[item[0]], keys = keys[: item[1]], keys[item[1] :]
    if keys:
        raise FrameError("SYNCED holds keys of no zone")
    return out


def _keys(data: bytes) -> list[int]:
    if len(data) % 8:
        raise FrameError("a list of keys ends inside a key")
    return [key for (key,) in struct.iter_unpack("<Q", data)]


def _without(batch: Batch, keys: Iterable[int]) -> Batch:
    dropped = set(keys)
    if not dropped:
        return batch
    mask = batch.keys() == batch.keys()
    for position, key in enumerate(batch.keys().tolist()):
        if key in dropped:
            mask[position] = False
    return batch.pick(mask)


def _describe(outcome: Outcome) -> list[str]:
    return [
        f"{one.reason}: {one.entry}" + (f" (held by {one.holder})" if one.holder else "")
        for one in outcome.refusals[:_WORDS]
    ]


def _zone_ref(item: object) -> ZoneRef:
    if not isinstance(item, Mapping):
        raise FrameError("HELLO lists a zone that is no object")
    kind, name, datapath = item.get("kind"), item.get("name"), item.get("datapath", "")
    if kind not in {known_kind.value for known_kind in ZoneKind}:
        raise FrameError(f"HELLO lists a zone of unknown kind {kind!r}")
    if not isinstance(name, str) or not name or not isinstance(datapath, str):
        raise FrameError("HELLO lists a zone without a usable name")
    return ZoneRef(ZoneKind(kind), name, datapath, item.get("required", True) is not False)
