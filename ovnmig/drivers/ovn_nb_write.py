"""One change of a UDN as one Northbound transaction: epoch checked, difference applied, record written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ovs.db.idl import Row as IdlRow
from ovs.db.idl import Transaction
from ovsdbapp.backend.ovs_idl import Backend, idlutils

from ovnmig.core import drift, names, usage
from ovnmig.core.rows import (
    DOCUMENT_MARK,
    EPOCH_MARK,
    OWNER_MARK,
    RECORD_ROLE,
    ROLE_MARK,
    UDN_MARK,
    Change,
    ColumnValue,
    Committed,
    EpochConflict,
    Parent,
    PortEdit,
    Row,
)
from ovnmig.core.udn import Problem, Refused
from ovnmig.drivers import ovn_nb_read as read
from ovnmig.drivers.ovsdb import Command, LiveIdl
from ovnmig.engine.protocols import DatabaseUnavailable


class ApplyChange(Command):
    """The change. ovsdbapp runs it again when the database moved on meanwhile, so each run looks at
    everything anew."""

    def __init__(self, backend: Backend, owner: str, change: Change, first_epoch: int) -> None:
        super().__init__(backend)
        self._owner = owner
        self._change = change
        self._epoch = first_epoch if change.expected_epoch is None else change.expected_epoch + 1
        self._runs = 0
        self._counter: IdlRow | None = None

    def run_idl(self, txn: Transaction) -> None:
        """Raises EpochConflict and Refused before anything is sent."""
        if self.abandoned:
            raise DatabaseUnavailable("given up before it was sent")
        self._runs += 1
        self._counter = None
        live = self._live()
        change = self._change
        record = read.find_record(live, self._owner, change.udn)
        if self._was_written(record):
            self.result = Committed(self._epoch, read.nb_cfg(live), wrote=True)
            return
        self._check_epoch(record)
        owned = tuple(read.owned_rows(live, self._owner, change.udn))
        difference = drift.Diff() if change.rows is None else drift.diff(owned, change.rows)
        edits = [edit for edit in map(self._resolve_edit, change.ports) if edit is not None]
        strangers = self._strangers(owned) if change.rows is not None else []
        edited = any(options for _, options in edits)
        if not difference and not edited and not strangers and self._same_document(record):
            self.result = Committed(change.expected_epoch or 0, read.nb_cfg(live), wrote=False)
            return
        if record is not None:
            record.verify("external_ids")
        rows = _RowWriter(txn, live, self._owner, change.udn)
        rows.apply(difference)
        for port, stranger in strangers:
            port.delvalue("gateway_chassis", stranger)
        for port, options in edits:
            _edit_options(txn, port, options)
        self._write_record(txn, record)
        self.result = Committed(self._epoch, read.nb_cfg(live), wrote=True)
        if change.bump_nb_cfg:
            self._counter = next(iter(live.tables["NB_Global"].rows.values()))
            self._counter.increment("nb_cfg")

    def post_commit(self, txn: Transaction) -> None:
        """The counter's new value is known only now."""
        if self._counter is not None:
            self.result = Committed(self._epoch, txn.get_increment_new_value(), wrote=True)

    def _live(self) -> LiveIdl:
        live = self.api.idl
        assert isinstance(live, LiveIdl)  # noqa: S101 (the only kind OvsdbClient makes)
        return live

    def _check_epoch(self, record: IdlRow | None) -> None:
        expected = self._change.expected_epoch
        found = None if record is None else read.epoch_of(record)
        if found != expected:
            is_now = "gone" if found is None else f"at epoch {found}"
            believed = "not to exist" if expected is None else f"at epoch {expected}"
            raise EpochConflict(f"UDN {self._change.udn!r} is {is_now}, it was believed {believed}")

    def _was_written(self, record: IdlRow | None) -> bool:
        """On a later run: the reply to our own transaction was lost with the connection, but it had been
        carried out."""
        if self._runs == 1:
            return False
        if self._change.document is None:
            return record is None
        return (
            record is not None
            and record.external_ids.get(EPOCH_MARK) == str(self._epoch)
            and record.external_ids.get(DOCUMENT_MARK) == self._change.document
        )

    def _same_document(self, record: IdlRow | None) -> bool:
        wanted = self._change.document
        if record is None or wanted is None:
            return record is None and wanted is None
        return bool(record.external_ids.get(DOCUMENT_MARK) == wanted)

    def _resolve_edit(self, edit: PortEdit) -> tuple[IdlRow, dict[str, str | None]] | None:
        """The port and the keys that really change, perhaps none; ``None`` when there is no port to leave as
        it is."""
        port = idlutils.row_by_value(self._live(), "Logical_Switch_Port", "name", edit.port, None)
        if port is None:
            if edit.only_if is not None or all(value is None for value in edit.options.values()):
                return None
            raise Refused(
                (Problem("unknown-port", f"there is no logical switch port {edit.port!r} any more", "port"),)
            )
        if any(port.options.get(key) != value for key, value in (edit.only_if or {}).items()):
            return port, {}
        return port, {key: value for key, value in edit.options.items() if port.options.get(key) != value}

    def _strangers(self, owned: tuple[Any, ...]) -> list[tuple[IdlRow, IdlRow]]:
        """Candidates that another tool put into our gateway port's set: they would take the port without its
        sessions."""
        port_uuids = [row.uuid for row in owned if row.table == "Logical_Router_Port"]
        ports = [self._live().tables["Logical_Router_Port"].rows[UUID(uuid)] for uuid in port_uuids]
        return [
            (port, member)
            for port in ports
            for member in port.gateway_chassis
            if not read.is_ours(member, self._owner, self._change.udn)
        ]

    def _write_record(self, txn: Transaction, record: IdlRow | None) -> None:
        change = self._change
        if change.document is None:
            if record is not None:
                record.delete()
            return
        if record is None:
            record = txn.insert(self.api.tables[read.RECORD_TABLE])
            record.name = names.record_name(self._owner, change.udn)
        record.external_ids = {
            **marks(self._owner, change.udn, RECORD_ROLE),
            EPOCH_MARK: str(self._epoch),
            DOCUMENT_MARK: change.document,
        }


def marks(owner: str, udn: str, role: str) -> dict[str, str]:
    """The external_ids by which a row is known as ours."""
    return {OWNER_MARK: owner, UDN_MARK: udn, ROLE_MARK: role}


def _edit_options(txn: Transaction, port: IdlRow, options: Mapping[str, str | None]) -> None:
    """Set and remove keys; the server checks that all options still are what was looked at."""
    if not options:
        # Row.verify() is for rows that the transaction writes too: for others python-ovs sends nothing.
        txn.add_op(_unchanged_options(port))
        return
    port.verify("options")
    for key, value in options.items():
        if value is None:
            port.delkey("options", key)
        else:
            port.setkey("options", key, value)


def _unchanged_options(row: IdlRow) -> dict[str, Any]:
    return {
        "op": "wait",
        "timeout": 0,
        "table": row._table.name,
        "where": [["_uuid", "==", ["uuid", str(row.uuid)]]],
        "columns": ["options"],
        "until": "==",
        "rows": [{"options": ["map", [[key, value] for key, value in row.options.items()]]}],
    }


class _RowWriter:
    """Carries a difference over into a transaction."""

    def __init__(self, txn: Transaction, live: LiveIdl, owner: str, udn: str) -> None:
        self._txn = txn
        self._live = live
        self._owner = owner
        self._udn = udn
        self._by_role: dict[str, IdlRow] = {}

    def apply(self, difference: drift.Diff) -> None:
        """Insert, update, delete. Raises Refused when a row of somebody else would go too, or a switch is
        gone."""
        for owned in read.owned_rows(self._live, self._owner, self._udn):
            self._by_role.setdefault(owned.role, self._row(owned.table, owned.uuid))
        leaving = {delete.existing.uuid for delete in difference.deletes}
        added: dict[tuple[IdlRow, str], list[IdlRow]] = defaultdict(list)
        for insert in difference.inserts:
            child = self._insert(insert.row)
            if insert.row.parent is not None:
                added[self._holder(insert.row.parent), insert.row.parent.column].append(child)
        for update in difference.updates:
            row = self._row(update.existing.table, update.existing.uuid)
            self._update(row, update)
            if update.parent is not None:
                self._detach(update.existing, leaving)
                added[self._holder(update.parent), update.parent.column].append(row)
        for delete in difference.deletes:
            self._delete(delete.existing, leaving)
        for (holder, column), children in added.items():
            for child in children:
                holder.addvalue(column, child)

    def _row(self, table: str, uuid: str) -> IdlRow:
        return self._live.tables[table].rows[UUID(uuid)]

    def _insert(self, wanted: Row) -> IdlRow:
        table = self._live.tables[wanted.table]
        row = self._txn.insert(table)
        for column, value in wanted.columns.items():
            if column in table.columns and value != ():
                setattr(row, column, _to_ovs(value))
        row.external_ids = marks(self._owner, self._udn, wanted.role)
        self._by_role[wanted.role] = row
        return row

    def _update(self, row: IdlRow, update: drift.Update) -> None:
        for column, value in update.columns.items():
            setattr(row, column, _to_ovs(value))
        for column, keys in update.keys.items():
            for key, text in keys.items():
                if text is None:
                    row.delkey(column, key)
                else:
                    row.setkey(column, key, text)

    def _holder(self, parent: Parent) -> IdlRow:
        if parent.role is not None:
            return self._by_role[parent.role]
        table = parent.table or ""
        row = self._live.tables[table].rows.get(UUID(parent.uuid))
        if row is None:
            message = f"the {table.replace('_', ' ').lower()} {parent.uuid} is gone; attach to another one"
            raise Refused((Problem("switch-gone", message, "switch", conflict=True),))
        # Without this, a switch deleted at the same instant would let our port vanish without a word.
        row.verify("name")
        return row

    def _delete(self, existing: Any, leaving: set[str]) -> None:
        row = self._row(existing.table, existing.uuid)
        for column in usage.REFERENCES.get(existing.table, {}):
            if column == "gateway_chassis":
                continue  # A stranger in our own HA set goes with it.
            row.verify(column)
            foreign = [
                child for child in getattr(row, column) if not read.is_ours(child, self._owner, self._udn)
            ]
            if foreign:
                raise Refused((_held_by_others(row, column, foreign),))
        if existing.table in usage.ROOT_TABLES:
            row.delete()
        else:
            self._detach(existing, leaving)

    def _detach(self, existing: Any, leaving: set[str]) -> None:
        """Drop the reference that keeps the row; OVSDB then removes it, unless another row took it over."""
        if existing.parent_uuid is None or existing.parent_uuid in leaving:
            return
        row = self._row(existing.table, existing.uuid)
        for table, references in usage.REFERENCES.items():
            for column, child_table in references.items():
                holder = self._live.tables[table].rows.get(UUID(existing.parent_uuid))
                if child_table == existing.table and holder is not None:
                    holder.delvalue(column, row)


def _held_by_others(row: IdlRow, column: str, foreign: list[IdlRow]) -> Problem:
    what = ", ".join(sorted(getattr(child, "name", str(child.uuid)) for child in foreign)[:10])
    return Problem(
        "foreign-rows",
        f"{row._table.name} {row.name!r} still holds {column} of somebody else ({what}); remove those first",
        None,
        conflict=True,
    )


def _to_ovs(value: ColumnValue) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
