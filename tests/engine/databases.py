"""In-memory Northbound and Southbound databases with switches for failures that cannot be provoked
otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ovnmig.core.rows import Change, Committed, EpochConflict, PortEdit, Row
from ovnmig.core.views import (
    BindingView,
    ChassisView,
    NbView,
    OwnedRow,
    PortView,
    RecordRow,
    SbView,
    SwitchView,
)
from ovnmig.engine.protocols import DatabaseUnavailable
from tests.engine.clock import Changing, ManualClock


@dataclass
class Udn:
    epoch: int
    document: str
    rows: dict[str, tuple[str, Row]] = field(default_factory=dict)


class FakeNorthbound:
    """Applies changes on rows with the epoch check of the real one. ``orders``: where to write down the order
    of things (tests may share one list with the agents). ``fail_next`` lists what the next applies raise
    (after writing, where ``lost_answer`` says so); several controllers may share one, the lock goes to
    ``leader``."""

    def __init__(self, clock: ManualClock) -> None:
        self.udns: dict[str, Udn] = {}
        self.ports: dict[str, dict[str, str]] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        self.nb_cfg = 4
        self.bfd: dict[str, str] = {}
        self.fail_next: list[Exception | None] = []
        self.lost_answer = False
        self.race_next = 0
        self.down = ""
        self.log: list[tuple[str, Change]] = []
        self.orders: list[str] = []
        self.on_apply: Callable[[Change], None] | None = None
        self.news = Changing(clock)
        self.leader: object | None = None
        self._uuid = 0

    def seen_by(self, name: object) -> NorthboundSeat:
        """The view of one controller."""
        return NorthboundSeat(self, name)

    def view(self) -> NbView:
        if self.down:
            raise DatabaseUnavailable(self.down)
        ports = tuple(
            PortView(f"uuid-{name}", name, "", self.addresses.get(name, ()), dict(options), {})
            for name, options in self.ports.items()
        )
        owned = tuple(
            OwnedRow(uuid, name, row.role, row.table, row.columns, self._parent(udn, row))
            for name, udn in self.udns.items()
            for uuid, row in udn.rows.values()
        )
        records = tuple(
            RecordRow(f"record-{name}", name, udn.epoch, udn.document) for name, udn in self.udns.items()
        )
        return NbView((SwitchView("uuid-sw", "sw", ports),), (), owned, records, self.nb_cfg)

    def _parent(self, udn: Udn, row: Row) -> str | None:
        if row.parent is None:
            return None
        return row.parent.uuid if row.parent.role is None else udn.rows[row.parent.role][0]

    def apply(self, change: Change) -> Committed:
        failure = self.fail_next.pop(0) if self.fail_next else None
        if failure is not None and not self.lost_answer:
            raise failure
        if self.down:
            raise DatabaseUnavailable(self.down)
        udn = self.udns.get(change.udn)
        if self.race_next and udn is not None:
            self.race_next -= 1
            udn.epoch += 1
        if (udn.epoch if udn else None) != change.expected_epoch:
            raise EpochConflict(f"UDN {change.udn!r} is at {udn.epoch if udn else None}")
        committed = self._write(udn, change)
        self.news.changed()
        if self.on_apply is not None:
            self.on_apply(change)
        if failure is not None:
            self.lost_answer = False
            raise failure
        return committed

    def _write(self, udn: Udn | None, change: Change) -> Committed:
        if change.document is None:
            del self.udns[change.udn]
            return Committed(0, self.nb_cfg, True)
        wanted = None if change.rows is None else {row.role: row for row in change.rows}
        same_rows = wanted is None or (
            udn is not None and wanted == {role: row for role, (_, row) in udn.rows.items()}
        )
        edited = [edit for edit in change.ports if self._applies(edit)]
        if udn is not None and udn.document == change.document and same_rows and not edited:
            return Committed(udn.epoch, self.nb_cfg, False)
        if udn is None:
            udn = self.udns[change.udn] = Udn(99, change.document)
        udn.epoch += 1
        udn.document = change.document
        if wanted is not None:
            udn.rows = {
                role: (udn.rows[role][0] if role in udn.rows else self._new_uuid(), row)
                for role, row in wanted.items()
            }
        for edit in edited:
            self._edit(edit)
        if change.bump_nb_cfg:
            self.nb_cfg += 1
        self.log.append((_kind(change), change))
        self.orders.append(f"NB: {_kind(change)}")
        return Committed(udn.epoch, self.nb_cfg, True)

    def _new_uuid(self) -> str:
        self._uuid += 1
        return f"uuid-{self._uuid:04}"

    def _applies(self, edit: PortEdit) -> bool:
        options = self.ports.get(edit.port, {})
        return all(options.get(key) == value for key, value in (edit.only_if or {}).items())

    def _edit(self, edit: PortEdit) -> None:
        options = self.ports[edit.port]
        for key, value in edit.options.items():
            if value is None:
                options.pop(key, None)
            else:
                options[key] = value

    def members(self, udn: str) -> dict[str, int]:
        """The HA set as the rows have it."""
        rows = (row for _, row in self.udns[udn].rows.values() if row.table == "Gateway_Chassis")
        return {str(row.columns["chassis_name"]): int(str(row.columns["priority"])) for row in rows}

    def effects(self) -> list[str]:
        """The kinds of transactions written so far."""
        return [kind for kind, _ in self.log]


def _kind(change: Change) -> str:
    if change.rows is None:
        return "record"
    return "rows, record and nb_cfg" if change.bump_nb_cfg else "rows and record"


class NorthboundSeat:
    """One controller's connection to the shared fake."""

    def __init__(self, shared: FakeNorthbound, name: object) -> None:
        self.shared = shared
        self.name = name

    async def view(self) -> NbView:
        await asyncio.sleep(0)
        return self.shared.view()

    async def apply(self, change: Change) -> Committed:
        await asyncio.sleep(0)
        committed = self.shared.apply(change)
        await asyncio.sleep(0)
        return committed

    async def bfd(self) -> dict[str, str]:
        return dict(self.shared.bfd)

    async def set_bfd(self, wanted: Mapping[str, str]) -> bool:
        wrote, self.shared.bfd = self.shared.bfd != dict(wanted), dict(wanted)
        return wrote

    async def wait_changed(self, timeout_s: float) -> bool:
        return await self.shared.news.wait(timeout_s)

    async def healthy(self) -> str:
        return self.shared.down

    async def try_lock(self) -> bool:
        if self.shared.down:
            raise DatabaseUnavailable(self.shared.down)
        if self.shared.leader is None:
            self.shared.leader = self.name
        return self.shared.leader is self.name


class FakeSouthbound:
    """Chassis and bindings that tests (or :class:`tests.engine.world.World`) set. ``down``: in words, why it
    is away."""

    def __init__(self, clock: ManualClock) -> None:
        self.chassis: dict[str, ChassisView] = {}
        self.bindings: dict[str, BindingView] = {}
        self.datapaths: dict[str, str] = {}
        self.down = ""
        self.news = Changing(clock)

    def bind(self, port: str, chassis: str, **changes: Any) -> None:
        """Show ``port`` bound on ``chassis``."""
        known = self.bindings.get(port, BindingView(port, "", "", (), (), True, "dp"))
        self.bindings[port] = replace(known, chassis=chassis, **changes)
        self.news.changed()

    async def view(self) -> SbView:
        await asyncio.sleep(0)
        if self.down:
            raise DatabaseUnavailable(self.down)
        return SbView(tuple(self.chassis.values()), tuple(self.bindings.values()), dict(self.datapaths))

    async def wait_until(self, predicate: Callable[[SbView], bool], timeout_s: float) -> bool:
        if predicate(await self.view()):
            return True
        await self.news.wait(timeout_s)
        return predicate(await self.view())

    async def healthy(self) -> str:
        return self.down
