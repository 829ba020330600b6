"""Northbound rows as the core sees them. Everything here runs under the copy's lock and only reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ovs.db.idl import Row

from ovnmig.core import usage
from ovnmig.core.rows import (
    DOCUMENT_MARK,
    EPOCH_MARK,
    OWNER_MARK,
    RECORD_ROLE,
    ROLE_MARK,
    UDN_MARK,
    ColumnValue,
)
from ovnmig.core.views import (
    NatView,
    NbView,
    OwnedRow,
    PortView,
    RecordRow,
    RouterPortView,
    RouterView,
    SwitchView,
)
from ovnmig.drivers.ovsdb import LiveIdl

RECORD_TABLE = usage.RECORD_TABLE
COLUMNS = usage.northbound_columns()
"""Table -> columns the copy follows."""


def view(live: LiveIdl, owner: str) -> NbView:
    """The whole picture for one deployment."""
    return NbView(
        switches=tuple(_switch(live, row) for row in _rows(live, "Logical_Switch")),
        routers=tuple(_router(live, row) for row in _rows(live, "Logical_Router")),
        owned=tuple(owned_rows(live, owner)),
        records=tuple(record for row in _rows(live, RECORD_TABLE) if (record := record_row(row, owner))),
        nb_cfg=nb_cfg(live),
        load_balancer_vips=frozenset(
            vip for row in _rows(live, "Load_Balancer") for vip in live.cached(row, _balancer_vips)
        ),
    )


def _rows(live: LiveIdl, table: str) -> tuple[Row, ...]:
    return tuple(live.tables[table].rows.values()) if table in live.tables else ()


def nb_cfg(live: LiveIdl) -> int:
    """The configuration number as the copy has it; 0 in a database nobody has initialised."""
    return max((int(row.nb_cfg) for row in _rows(live, "NB_Global")), default=0)


def is_ours(row: Row, owner: str, udn: str | None = None) -> bool:
    """Whether the row carries this deployment's marks (and that UDN's)."""
    return _marked(_marks(row), owner, udn)


def _marks(row: Row) -> Mapping[str, str]:
    marks: Mapping[str, str] = row.external_ids
    return marks


def _marked(marks: Mapping[str, str], owner: str, udn: str | None) -> bool:
    return (
        marks.get(OWNER_MARK) == owner and ROLE_MARK in marks and (udn is None or marks.get(UDN_MARK) == udn)
    )


def owned_rows(live: LiveIdl, owner: str, udn: str | None = None) -> Iterator[OwnedRow]:
    """Rows of this deployment (of one UDN), record rows left out, each with the row that holds it."""
    holders: dict[Any, str] | None = None
    for table in usage.WRITTEN:
        for row in _rows(live, table):
            marks = live.cached(row, _marks)
            if not _marked(marks, owner, udn):
                continue
            holders = _holders(live) if holders is None else holders
            yield OwnedRow(
                uuid=str(row.uuid),
                udn=marks.get(UDN_MARK, ""),
                role=marks[ROLE_MARK],
                table=table,
                columns=_own_columns(row, table),
                parent_uuid=holders.get(row.uuid),
            )


def _holders(live: LiveIdl) -> dict[Any, str]:
    """Child UUID -> UUID of the row that keeps it alive."""
    return {
        child: str(row.uuid)
        for table in usage.REFERENCES
        for row in _rows(live, table)
        for child in live.cached(row, _children)
    }


def _children(row: Row) -> tuple[Any, ...]:
    """UUIDs of the rows this one keeps alive."""
    columns = usage.REFERENCES[row._table.name]
    return tuple(child.uuid for column in columns for child in getattr(row, column))


def _own_columns(row: Row, table: str) -> dict[str, ColumnValue]:
    return {
        column: _value(getattr(row, column))
        for column in usage.WRITTEN[table]
        if column in row._table.columns
    }


def _value(value: Any) -> ColumnValue:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict):
        return dict(value)
    plain: str | int | bool = value
    return plain


def find_record(live: LiveIdl, owner: str, udn: str) -> Row | None:
    """The record row of a UDN, found by its marks."""
    for row in _rows(live, RECORD_TABLE):
        if is_ours(row, owner, udn) and row.external_ids[ROLE_MARK] == RECORD_ROLE:
            return row
    return None


def record_row(row: Row, owner: str) -> RecordRow | None:
    """The record in an Address_Set row; ``None`` for any other address set."""
    if not is_ours(row, owner) or row.external_ids[ROLE_MARK] != RECORD_ROLE:
        return None
    marks = row.external_ids
    return RecordRow(
        uuid=str(row.uuid),
        udn=marks.get(UDN_MARK, ""),
        epoch=epoch_of(row),
        document=marks.get(DOCUMENT_MARK, ""),
    )


def epoch_of(record: Row) -> int:
    """The epoch in a record row; 0 when it was damaged by hand, so that it can still be read and replaced."""
    text = record.external_ids.get(EPOCH_MARK, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _switch(live: LiveIdl, row: Row) -> SwitchView:
    return SwitchView(
        uuid=str(row.uuid),
        name=row.name,
        ports=tuple(live.cached(port, _port) for port in row.ports),
        external_ids=row.external_ids,
    )


def _port(row: Row) -> PortView:
    return PortView(
        uuid=str(row.uuid),
        name=row.name,
        type=row.type,
        addresses=tuple(row.addresses),
        options=row.options,
        external_ids=row.external_ids,
    )


def _router(live: LiveIdl, row: Row) -> RouterView:
    return RouterView(
        uuid=str(row.uuid),
        name=row.name,
        options=row.options,
        external_ids=row.external_ids,
        ports=tuple(_router_port(port) for port in row.ports),
        nats=tuple(live.cached(nat, _nat) for nat in row.nat),
    )


def _router_port(row: Row) -> RouterPortView:
    # Not cached: the priority of a Gateway_Chassis changes without a change of the port's own row.
    return RouterPortView(
        uuid=str(row.uuid),
        name=row.name,
        mac=row.mac,
        networks=tuple(row.networks),
        gateway_chassis=tuple((member.chassis_name, member.priority) for member in row.gateway_chassis),
        has_ha_chassis_group=bool(row.ha_chassis_group),
    )


def _nat(row: Row) -> NatView:
    return NatView(uuid=str(row.uuid), type=row.type, external_ip=row.external_ip, logical_ip=row.logical_ip)


def _balancer_vips(row: Row) -> tuple[str, ...]:
    """The addresses of ``IP:port`` and ``[IPv6]:port`` keys."""
    found = (re.match(r"\[(?P<six>[^]]*)\]|(?P<four>[^:]*)(?::\d+)?$|(?P<bare>.*)$", vip) for vip in row.vips)
    return tuple(match["six"] or match["four"] or match["bare"] or "" for match in found if match)
