"""Northbound rows as data: what the core wants to exist, and one change to make it so in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = str | int | bool
ColumnValue = Scalar | tuple[Scalar, ...] | Mapping[str, str]
"""A column's wanted value: a scalar, a set (tuple; order does not matter), or a string map. Optional columns:
``()`` is empty."""

OWNER_MARK = "ovnmig-owner"
UDN_MARK = "ovnmig-udn"
ROLE_MARK = "ovnmig-role"
EPOCH_MARK = "ovnmig-epoch"
DOCUMENT_MARK = "ovnmig-document"
RECORD_ROLE = "record"
"""The role of the record row (an Address_Set), handled by the driver from ``Change.document``; never in
``Change.rows``."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The row that references this one: by our role, or by UUID where the row is not ours (the attached
    switch)."""

    column: str
    role: str | None = None
    uuid: str | None = None
    table: str | None = None
    """Table of the foreign row when ``uuid`` is given."""


@dataclass(frozen=True, slots=True)
class Row:
    """One wanted row. ``role`` is unique within the UDN and stands in ``external_ids:ovnmig-role``; rows are
    found by it.

    ``columns`` lists every column ovnmig sets, without the marks (the driver adds them to ``external_ids``).
    Columns the live schema lacks are left out by the driver. For map columns only the listed keys are ours.
    """

    role: str
    table: str
    columns: Mapping[str, ColumnValue]
    parent: Parent | None = None


@dataclass(frozen=True, slots=True)
class PortEdit:
    """Option keys to set (or remove: ``None``) on a VM's port, which is not ours; other keys are never
    touched."""

    port: str
    options: Mapping[str, str | None]
    only_if: Mapping[str, str | None] | None = None
    """Apply only while these keys still have these values (``None``: absent): a foreign writer's later value
    is kept."""


@dataclass(frozen=True, slots=True)
class Change:
    """One transaction on a UDN. The driver verifies the epoch, diffs and writes all of it atomically, or
    nothing.

    ``expected_epoch`` ``None``: the record must not exist yet. ``rows`` ``None``: rows stay as they are;
    otherwise the complete set of rows the UDN is to own (missing ones created, others updated, surplus ones
    deleted).
    ``document`` ``None``: the record row is deleted too (with ``rows=()``).
    """

    udn: str
    expected_epoch: int | None
    document: str | None
    rows: tuple[Row, ...] | None = None
    ports: tuple[PortEdit, ...] = ()
    bump_nb_cfg: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a change. ``wrote`` is False when the database already said all of it (nothing was
    sent)."""

    epoch: int
    nb_cfg: int
    wrote: bool


class EpochConflict(Exception):
    """Somebody else changed the UDN's record since it was read; read again and decide anew."""
