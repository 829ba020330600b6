"""The Northbound transactions of a migration: one Change per kind of commit, and the document it leaves
behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ovnmig.core import document, placement, rollback, topology
from ovnmig.core.document import UdnDocument
from ovnmig.core.effects import CommitKind
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.rows import Change, PortEdit
from ovnmig.core.udn import Member


@dataclass(frozen=True, slots=True)
class Planned:
    """A transaction and the document that stands in the record row after it."""

    change: Change
    document: UdnDocument


def plan(kind: CommitKind, current: UdnDocument, record: MigrationRecord, epoch: int) -> Planned:
    """The transaction of ``kind`` that writes ``record`` over ``current``, which was read at ``epoch``.

    A record-only commit leaves rows alone; the others hand in the complete wanted rows, so whatever strayed
    from the UDN's own rows is put right in the same transaction.
    """
    members = _members(kind, current, record)
    after = replace(current, members=members, migration=record)
    if kind in (CommitKind.CLOSE, CommitKind.RESTORE):
        after = after.with_ended(record)
    return Planned(
        Change(
            udn=current.spec.name,
            expected_epoch=epoch,
            document=document.encode(after),
            rows=None if kind is CommitKind.RECORD else topology.rows(current.spec, members),
            ports=_PORTS[kind](record) if kind in _PORTS else (),
            bump_nb_cfg=kind is CommitKind.PREPARE,
        ),
        after,
    )


def _members(kind: CommitKind, current: UdnDocument, record: MigrationRecord) -> tuple[Member, ...]:
    members = current.members
    if not record.moves_gateway:
        return members
    if kind is CommitKind.PREPARE:
        return placement.with_target(members, record.target)
    if kind is CommitKind.SWITCH:
        return placement.raised(members, record.target)
    if kind is CommitKind.CLOSE:
        # Whoever owns the gateway now stays first, so that closing never moves it.
        owner = record.owner if any(m.chassis == record.owner for m in members) else record.target
        return placement.trimmed(members, owner, current.spec.standby_count, record.source or None)
    return record.members_before if kind is CommitKind.RESTORE else members


_PORTS: Mapping[CommitKind, Callable[[MigrationRecord], tuple[PortEdit, ...]]] = {
    CommitKind.PREPARE: rollback.prepare_port,
    CommitKind.SWITCH: rollback.switch_port,
    CommitKind.CLOSE: rollback.close_port,
    CommitKind.RESTORE: rollback.restore_port,
}
