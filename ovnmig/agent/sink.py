"""The receiving side of a stream: applies entries to this node's zones and tells what became of each.

Frames are read and checked while those before them are written to the kernel, and the zone is read back in a
thread of its own, which begins while the last frames before the question are still being written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from ovnmig.agent import frames, zones
from ovnmig.agent.answers import synced
from ovnmig.agent.applying import Applying, Parsed, Zone, parse
from ovnmig.agent.frames import Frame, FrameError, Kind
from ovnmig.agent.link import Link, LinkEnded, LinkLost, PeerRefused, first_cause
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.readback import ReadBack
from ovnmig.agent.roles import Roles
from ovnmig.agent.store import Copies, Fence, StaleEpoch
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import BadRecords, Hashes, joined
from ovnmig.core.transfer import ZoneKind, ZoneRef
from ovnmig.pki import PkiError, Role

WINDOW: Final = 8
_GATHER_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Item:
    """A frame that was received, or why there will be no more."""

    frame: Frame
    parsed: Parsed | None = None
    end: Exception | None = None


class Resync(Exception):
    """What was received can no longer be applied in order; the source must begin anew."""


class Refused(Exception):
    """The stream cannot be served; ``code`` goes into the ERROR."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Sink:
    """One stream from HELLO to its end. ``view`` gives the local database at the moment of asking."""

    def __init__(
        self,
        chassis: str,
        view: Callable[[], LocalView],
        copies: Copies,
        fence: Fence,
        worker: Worker,
        reader: Worker,
        roles: Roles,
    ) -> None:
        self._chassis = chassis
        self._view = view
        self._copies = copies
        self._fence = fence
        self._worker = worker
        self._reader = reader
        self._roles = roles
        self._keep = False
        self._epoch = 0
        self.udn = ""
        self.fault = ""
        self.applied = 0
        self._zones: list[Zone] = []
        self._items: asyncio.Queue[_Item] = asyncio.Queue(WINDOW)
        self._vanished: dict[int, Hashes] = {}
        self._look: asyncio.Future[None] | None = None
        self._late: list[tuple[int, Parsed]] = []

    async def serve(self, link: Link) -> str:
        """Answer frames until the stream ends; returns why it ended, in words. ``fault`` is then one word for
        the kind of end: cut, gap, format or the code of the refusal; empty for an end between two frames."""
        try:
            await self._greet(link, await link.receive())
            link.done()
            await self._stream(link)
        except Resync as gap:
            self.fault = "gap"
            await link.end_with(Frame(Kind.RESYNC, 0, {"reason": str(gap)}))
            return f"resync: {gap}"
        except (FrameError, BadRecords) as error:
            self.fault = "format"
            await link.refuse("format", str(error))
            return f"refused: {error}"
        except Refused as error:
            self.fault = error.code
            await link.refuse(error.code, str(error))
            return f"refused: {error}"
        except (LinkLost, PeerRefused) as error:
            self.fault = "" if isinstance(error, LinkEnded) else "cut"
            await link.close()
            return str(error)

    async def _stream(self, link: Link) -> NoReturn:
        """Answer frames; signs of life, receiving and following the ends of entries go on beside it."""
        back = ReadBack(self.udn, self._copies, self._reader, self._zones)
        await self._reader.run(back.open)
        applying = Applying(self.udn, self._copies, self._worker, self._roles, self._zones, keep=self._keep)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(link.keep_alive())
                group.create_task(self._receive(link, back))
                group.create_task(self._follow_ends(back))
                while True:
                    item = await self._items.get()
                    if item.end is not None:
                        raise item.end
                    await link.send(await self._answer(item, applying, back))
                    self.applied = applying.applied
                    link.done()
        except BaseExceptionGroup as several:
            raise first_cause(several) from None
        finally:
            await asyncio.shield(self._reader.run(back.close))

    async def _receive(self, link: Link, back: ReadBack) -> None:
        """Take frames until the end; each is whole and checked before it stands in line to be applied."""
        expected = 1
        try:
            while True:
                frame = await link.receive()
                if frame.kind not in (Kind.ENTRIES, Kind.DELETE, Kind.SYNC):
                    raise FrameError(f"a source does not send {frame.kind.name} here")
                if frame.seq != expected:
                    raise Resync(f"frame {frame.seq} came where {expected} was due")
                expected += 1
                parsed = await self._reader.run(parse, frame) if frame.kind is Kind.ENTRIES else None
                await self._items.put(_Item(frame, parsed))
                if frame.kind is Kind.SYNC and frame.fields.get("verify") is True:
                    self._begin_look(back)
        except Exception as end:
            await self._items.put(_Item(Frame(Kind.ERROR), end=end))

    def _begin_look(self, back: ReadBack) -> asyncio.Future[None]:
        """Read the zones now; what is still waiting to be written is looked up afterwards."""
        if self._look is None:
            self._late = []
            self._look = self._reader.start(back.begin)
        return self._look

    async def _follow_ends(self, back: ReadBack) -> None:
        """Take note of copies that end here without their source saying so; the next SYNCED tells of them."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        while True:
            ready.clear()
            loop.add_reader(back.fileno(), ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(back.fileno())
            await asyncio.sleep(_GATHER_S)
            if self._look is None:
                self._note(await self._reader.run(back.ended))

    def _note(self, gone: Mapping[int, Hashes]) -> None:
        for index, keys in gone.items():
            self._vanished[index] = joined([self._vanished.get(index, keys[:0]), keys])

    async def _greet(self, link: Link, hello: Frame) -> None:
        if hello.kind is not Kind.HELLO:
            raise FrameError(f"a stream begins with HELLO, not with {hello.kind.name}")
        try:
            frames.check_version(hello)
        except FrameError as error:
            raise Refused("version", str(error)) from None
        try:
            peer = link.peer()
        except PkiError as error:
            raise Refused("identity", str(error)) from None
        claimed = hello.text("chassis")
        if peer.role is not Role.CHASSIS or peer.name != claimed:
            raise Refused("identity", f"the stream claims chassis {claimed!r}, its certificate is for {peer}")
        self.udn = hello.text("udn")
        self._epoch = hello.number("epoch")
        self._keep = hello.fields.get("keep") is True
        try:
            self._fence.pass_through(self.udn, self._epoch, f"a stream from {claimed!r}")
        except StaleEpoch as error:
            raise Refused("epoch", str(error)) from None
        self._check_role()
        refs = [_zone_ref(item) for item in hello.items("zones", 64)]
        view = self._view()
        numbers = zones.present(view, self._chassis, refs)
        problems = zones.shared(view, self._chassis, refs)
        if problems:
            raise Refused("zones", f"on chassis {self._chassis!r} {'; '.join(problems)}")
        self._zones = [Zone(ref, numbers[ref.key]) for ref in refs if ref.key in numbers]
        self._copies.keep(self.udn, tuple(zone.ref for zone in self._zones))
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
            raise Refused("epoch", f"a stream of a later epoch for UDN {self.udn!r} has come")
        objection = self._roles.objection(self.udn, self._epoch)
        if objection:
            raise Refused("owner", f"chassis {self._chassis!r} {objection}")

    async def _answer(self, item: _Item, applying: Applying, back: ReadBack) -> Frame:
        self._check_role()
        frame = item.frame
        if frame.kind is Kind.SYNC:
            await self._worker.run(applying.catch_up)
            return await self._synced(frame, back)
        zone = self._zone(frame)
        self._check_number(zone)
        if item.parsed is None:
            return await self._worker.run(applying.delete, zone, frame)
        answer = await self._worker.run(applying.entries, zone, frame, item.parsed)
        if self._look is not None:
            self._late.append((self._zones.index(zone), item.parsed))
        return answer

    async def _synced(self, frame: Frame, back: ReadBack) -> Frame:
        for zone in self._zones:
            self._check_number(zone)
        if frame.fields.get("verify") is True:
            await self._begin_look(back)
            self._note(await self._reader.run(back.finish, self._late))
            self._look, self._late = None, []
        else:
            self._note(await self._reader.run(back.ended))
        answer, self._vanished = synced(frame, self._vanished)
        return answer

    def _zone(self, frame: Frame) -> Zone:
        index = frame.number("zone")
        if index >= len(self._zones):
            raise FrameError(f"{frame.kind.name} for zone {index}, which WELCOME did not list")
        return self._zones[index]

    def _check_number(self, zone: Zone) -> None:
        """A number is good for one look only: OVN may give the zone another, after a flush."""
        now = zones.number(self._view(), self._chassis, zone.ref)
        if now != zone.number:
            raise Resync(f"zone {zone.ref.key!r} was {zone.number} here and is now {now or 'gone'}")


def _zone_ref(item: object) -> ZoneRef:
    if not isinstance(item, Mapping):
        raise FrameError("HELLO lists a zone that is no object")
    kind, name, datapath = item.get("kind"), item.get("name"), item.get("datapath", "")
    if kind not in {known_kind.value for known_kind in ZoneKind}:
        raise FrameError(f"HELLO lists a zone of unknown kind {kind!r}")
    if not isinstance(name, str) or not name or not isinstance(datapath, str):
        raise FrameError("HELLO lists a zone without a usable name")
    return ZoneRef(ZoneKind(kind), name, datapath, item.get("required", True) is not False)
