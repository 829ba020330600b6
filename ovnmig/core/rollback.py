"""What a migration writes into a VM's port and how that goes away again. The port is not ours: only two
option keys are touched, and only while they still hold what we wrote."""

from __future__ import annotations

from collections.abc import Mapping

from ovnmig.core.migration import Binding, MigrationRecord
from ovnmig.core.rows import PortEdit

REQUESTED = "requested-chassis"
STRATEGY = "activation-strategy"
RARP = "rarp"
"""The only activation strategy every OVN since 22.06 knows (``garp`` and ``na`` came with 25.09)."""


def kept_options(options: Mapping[str, str]) -> dict[str, str]:
    """The keys a rollback needs, as they stand before the migration."""
    return {key: options[key] for key in (REQUESTED, STRATEGY) if key in options}


def manages_port(record: MigrationRecord) -> bool:
    """ovnmig writes this port's binding, and there is something to write: the VM is not on the target yet."""
    return (
        record.binding is Binding.OVNMIG and record.port is not None and record.port_source != record.target
    )


def both(record: MigrationRecord) -> str:
    """``requested-chassis`` while the VM may be on either: the first is the main chassis."""
    return f"{record.port_source},{record.target}"


def prepare_port(record: MigrationRecord) -> tuple[PortEdit, ...]:
    """Let the target bind the port beside the source, mute until the VM's first RARP."""
    return _edit(record, {REQUESTED: both(record), STRATEGY: RARP}, None)


def switch_port(record: MigrationRecord) -> tuple[PortEdit, ...]:
    """Pin the port to the target."""
    return _edit(record, {REQUESTED: record.target}, {REQUESTED: both(record)})


def close_port(record: MigrationRecord) -> tuple[PortEdit, ...]:
    """Take the strategy away; the port stays pinned to the target."""
    ours = {REQUESTED: record.target, STRATEGY: RARP}
    return _edit(record, {STRATEGY: record.port_options_before.get(STRATEGY)}, ours)


def restore_port(record: MigrationRecord) -> tuple[PortEdit, ...]:
    """As it was before; a VM that already runs on the target stays bound there, only the gateway stays
    behind."""
    before = record.port_options_before
    requested = record.target if record.arrived else before.get(REQUESTED)
    ours = {REQUESTED: both(record), STRATEGY: RARP}
    return _edit(record, {REQUESTED: requested, STRATEGY: before.get(STRATEGY)}, ours)


def _edit(
    record: MigrationRecord, options: Mapping[str, str | None], only_if: Mapping[str, str | None] | None
) -> tuple[PortEdit, ...]:
    if not manages_port(record) or record.port is None:
        return ()
    return (PortEdit(record.port, options, only_if),)
