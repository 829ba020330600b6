"""Wire models of migrations."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from pydantic import ConfigDict, Field

from ovnmig.core.migration import (
    OVERLAP_S,
    Binding,
    MigrationRecord,
    MigrationRequest,
    Phase,
    TransferMode,
    Trigger,
)
from ovnmig.core.transfer import Counts
from ovnmig.engine.protocols import DryRun
from ovnmig.service import examples
from ovnmig.service.fields import (
    AnswerModel,
    NameField,
    OverlapField,
    RequestModel,
    SwitchField,
    UdnNameField,
)
from ovnmig.service.problems import ProblemItem, item

NO_TRANSFER_WARNING = "transfer is 'none': no entries are moved, sessions through the VIP break at the switch"


class MigrationCreate(RequestModel):
    """POST /v1/migrations."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.MIGRATION_CREATE]})

    udn: UdnNameField
    target: NameField = Field(description="chassis to go to, by system-id")
    port: NameField | None = Field(
        default=None, description="the VM's logical switch port; null: only the gateway moves"
    )
    binding: Binding = Field(
        default=Binding.EXTERNAL,
        description="who writes requested-chassis of the port: 'ovnmig', or the CMS ('external')",
    )
    trigger: Trigger = Field(
        default=Trigger.AUTO, description="'auto': switch when the VM arrives; 'manual': when told"
    )
    transfer: TransferMode = Field(
        default=TransferMode.FULL, description="'none' breaks sessions; for controls and tests"
    )
    overlap_s: OverlapField = OVERLAP_S
    gateway: SwitchField | None = Field(
        default=None, description="whether the gateway moves; null: the UDN's policy"
    )
    allow_interruption: SwitchField = Field(
        default=False,
        description="a lone gateway may be gone for about a second while its first standby comes up",
    )
    dry_run: SwitchField = Field(default=False, description="only check and plan; nothing is written")

    def to_core(self, idempotency_key: str | None) -> MigrationRequest:
        """The core's request."""
        return MigrationRequest(
            udn=self.udn,
            target=self.target,
            port=self.port,
            binding=self.binding,
            trigger=self.trigger,
            transfer=self.transfer,
            overlap_s=self.overlap_s,
            gateway=self.gateway,
            idempotency_key=idempotency_key,
            allow_interruption=self.allow_interruption,
        )


class CountsAnswer(AnswerModel):
    """What became of the conntrack entries. ``lost``: read on the source, on the target at no time."""

    read: int
    created: int
    identical: int
    replaced: int
    refused: int
    refused_by_reason: dict[str, int]
    lost: int
    kinds: dict[str, int] = Field(description="entries read by protocol and family, like 'tcp/4'")


class MigrationAnswer(AnswerModel):
    """A migration. Times are RFC 3339 in UTC."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.MIGRATION]})

    id: str
    udn: str
    port: str | None
    source: str = Field(description="the gateway's chassis when the migration began")
    port_source: str = Field(description="the VM's chassis then; empty: unbound")
    target: str
    moves_gateway: bool
    phase: Phase
    waits_for: str
    reason: str
    trigger: Trigger
    binding: Binding
    transfer: TransferMode
    overlap_s: float
    created_at: datetime
    phase_since: datetime
    switched_at: datetime | None
    ended_at: datetime | None
    phase_at: dict[str, datetime] = Field(description="when each phase was entered (the last time)")
    phase_s: dict[str, float] = Field(description="seconds spent in each phase that is over")
    counts: CountsAnswer
    unmoved: list[str] = Field(
        description="entries that could not be moved, with the reason and who holds their place: the first"
        " 20, counts.refused_by_reason has all"
    )
    nb_transactions: int = Field(
        description="effect transactions in the Northbound database so far, at most 3"
    )
    arrived: bool = Field(description="SB showed the VM activated or bound on the target")
    arrived_early: bool
    cancel_ordered: bool
    warnings: list[str]
    from_history: bool = Field(
        default=False, description="read from the controller's history: no record row holds it any more"
    )


class MigrationList(AnswerModel):
    """Migrations, the newest first."""

    migrations: list[MigrationAnswer]


class DryRunAnswer(AnswerModel):
    """What would stop the migration, and what it would do."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.DRY_RUN]})

    possible: bool
    problems: list[ProblemItem]
    plan: list[str]
    warnings: list[str]


def _time(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)


def counts_answer(counts: Counts) -> CountsAnswer:
    """The wire form of transfer counts."""
    return CountsAnswer(
        read=counts.read,
        created=counts.created,
        identical=counts.identical,
        replaced=counts.replaced,
        refused=counts.refused_total,
        refused_by_reason=dict(counts.refused),
        lost=counts.lost,
        kinds=dict(counts.kinds),
    )


def warnings_of(record: MigrationRecord) -> list[str]:
    """Sentences a person should read even when the migration went well."""
    found = list(record.warnings)
    if record.transfer is TransferMode.NONE and not found:
        found.append(NO_TRANSFER_WARNING)
    if record.arrived_early:
        found.append("the VM arrived before 'ready': state of its own port zone may have come too late")
    if record.counts.refused_total:
        found.append(
            f"{record.counts.refused_total} entries were refused by the target: see refused_by_reason and"
            " unmoved"
        )
    if record.counts.lost:
        found.append(f"{record.counts.lost} entries were lost: read on the source, on the target at no time")
    return found


def phase_seconds(record: MigrationRecord) -> dict[str, float]:
    """Seconds spent in each phase that is over; a phase entered twice adds up."""
    spent: dict[str, float] = {}
    for (phase, entered), (_, left) in pairwise(record.phase_times):
        spent[phase.value] = round(spent.get(phase.value, 0.0) + max(0.0, left - entered), 6)
    return spent


def migration_answer(record: MigrationRecord, *, from_history: bool = False) -> MigrationAnswer:
    """The wire form of a migration."""
    return MigrationAnswer(
        id=record.id,
        udn=record.udn,
        port=record.port,
        source=record.source,
        port_source=record.port_source,
        target=record.target,
        moves_gateway=record.moves_gateway,
        phase=record.phase,
        waits_for=record.waits_for,
        reason=record.reason,
        trigger=record.trigger,
        binding=record.binding,
        transfer=record.transfer,
        overlap_s=record.overlap_s,
        created_at=_time(record.created_at),
        phase_since=_time(record.phase_since),
        switched_at=None if record.switched_at is None else _time(record.switched_at),
        ended_at=None if record.ended_at is None else _time(record.ended_at),
        phase_at={phase.value: _time(at) for phase, at in record.phase_times},
        phase_s=phase_seconds(record),
        counts=counts_answer(record.counts),
        unmoved=list(record.unmoved),
        nb_transactions=record.nb_transactions,
        arrived=record.arrived,
        arrived_early=record.arrived_early,
        cancel_ordered=record.cancel_ordered,
        warnings=warnings_of(record),
        from_history=from_history,
    )


def dry_run_answer(result: DryRun, request: MigrationRequest) -> DryRunAnswer:
    """The wire form of a dry run."""
    return DryRunAnswer(
        possible=not result.problems,
        problems=[item(p) for p in result.problems],
        plan=list(result.plan),
        warnings=[NO_TRANSFER_WARNING] if request.transfer is TransferMode.NONE else [],
    )
