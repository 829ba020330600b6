"""The difference between the rows a UDN owns and the rows it is to own, as data and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ovnmig.core import usage
from ovnmig.core.rows import ColumnValue, Parent, Row, Scalar
from ovnmig.core.udn import Member
from ovnmig.core.views import NbView, OwnedRow


@dataclass(frozen=True, slots=True)
class Insert:
    """A row to create, with the marks."""

    row: Row


@dataclass(frozen=True, slots=True)
class Update:
    """Columns of an existing row to bring in line. ``keys``: map column -> key -> value, ``None`` removes the
    key."""

    existing: OwnedRow
    columns: Mapping[str, ColumnValue] = field(default_factory=dict)
    keys: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    parent: Parent | None = None
    """Set when another row is to hold this one from now on."""


@dataclass(frozen=True, slots=True)
class Delete:
    """A row that is ours and no longer wanted."""

    existing: OwnedRow


@dataclass(frozen=True, slots=True)
class Diff:
    """All that has to happen, in the order of the wanted rows (parents first)."""

    inserts: tuple[Insert, ...] = ()
    updates: tuple[Update, ...] = ()
    deletes: tuple[Delete, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inserts or self.updates or self.deletes)


def diff(existing: Iterable[OwnedRow], wanted: Iterable[Row]) -> Diff:
    """What turns ``existing`` (one UDN's rows) into ``wanted``. Of two rows with one role, the lower UUID
    stays."""
    by_role: dict[tuple[str, str], OwnedRow] = {}
    surplus: list[OwnedRow] = []
    for owned in sorted(existing, key=lambda owned: owned.uuid):
        if (owned.table, owned.role) in by_role:
            surplus.append(owned)
        else:
            by_role[owned.table, owned.role] = owned
    uuid_of = {role: row.uuid for (_, role), row in by_role.items()}
    inserts: list[Insert] = []
    updates: list[Update] = []
    for row in wanted:
        found = by_role.pop((row.table, row.role), None)
        if found is None:
            inserts.append(Insert(row))
        else:
            update = _compare(found, row, uuid_of)
            if update is not None:
                updates.append(update)
    surplus.extend(by_role.values())
    return Diff(tuple(inserts), tuple(updates), tuple(Delete(row) for row in surplus))


def _compare(found: OwnedRow, row: Row, uuid_of: Mapping[str, str]) -> Update | None:
    columns: dict[str, ColumnValue] = {}
    keys: dict[str, Mapping[str, str | None]] = {}
    for column, value in row.columns.items():
        if column not in found.columns:
            continue  # The live schema has no such column.
        if isinstance(value, Mapping):
            changed = _changed_keys(found.table, column, found.columns[column], value)
            if changed:
                keys[column] = changed
        elif _elements(found.columns[column]) != _elements(value):
            columns[column] = value
    parent = None
    if row.parent is not None:
        holder = row.parent.uuid if row.parent.role is None else uuid_of.get(row.parent.role)
        parent = row.parent if found.parent_uuid is None or found.parent_uuid != holder else None
    if not columns and not keys and parent is None:
        return None
    return Update(found, columns, keys, parent)


def _changed_keys(
    table: str, column: str, now: ColumnValue, wanted: Mapping[str, str]
) -> Mapping[str, str | None]:
    present = now if isinstance(now, Mapping) else {}
    changed: dict[str, str | None] = {
        key: value for key, value in wanted.items() if present.get(key) != value
    }
    for key in usage.our_keys(table, column):
        if key in present and key not in wanted:
            changed[key] = None
    return changed


def _elements(value: ColumnValue) -> frozenset[Scalar]:
    """A column's value as a set: OVSDB's optional and set columns compare without order, scalars as one
    element."""
    return frozenset(value) if isinstance(value, tuple) else frozenset({value})  # type: ignore[arg-type]


def words(difference: Diff) -> tuple[str, ...]:
    """The differences for people, one line each."""
    lines = [f"{i.row.table} row {i.row.role!r} is missing" for i in difference.inserts]
    for update in difference.updates:
        what = f"{update.existing.table} row {update.existing.role!r}"
        for column, value in update.columns.items():
            now = _shown(update.existing.columns[column])
            lines.append(f"{what}: {column} is {now}, {_shown(value)} is wanted")
        for column, changed in update.keys.items():
            lines.extend(_key_words(update.existing, what, column, changed))
        if update.parent is not None:
            lines.append(f"{what} hangs in the wrong place")
    lines.extend(
        f"{d.existing.table} row {d.existing.role!r} is not wanted any more" for d in difference.deletes
    )
    return tuple(lines)


def strangers(nb: NbView, external_port: str, members: Iterable[Member]) -> tuple[str, ...]:
    """Candidates in the gateway port's set that ovnmig did not put there, in words: one could take the port
    without having its sessions. The next write of the UDN's rows removes them."""
    known = {member.chassis for member in members}
    ports = (port for router in nb.routers for port in router.ports if port.name == external_port)
    return tuple(
        f"Gateway_Chassis of {chassis!r} with priority {priority} was added by somebody else"
        for port in ports
        for chassis, priority in sorted(port.gateway_chassis)
        if chassis not in known
    )


def _key_words(
    existing: OwnedRow, what: str, column: str, changed: Mapping[str, str | None]
) -> Iterable[str]:
    present = existing.columns[column]
    for key, value in changed.items():
        now = present.get(key) if isinstance(present, Mapping) else None
        is_now = "absent" if now is None else repr(now)
        wanted = "absent" if value is None else repr(value)
        yield f"{what}: {column}:{key} is {is_now}, {wanted} is wanted"


def _shown(value: ColumnValue) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(sorted(map(str, value))) + "]"
    return repr(value)
