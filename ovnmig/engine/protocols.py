"""What the engine needs from the outside world. Drivers implement these; tests use small in-memory fakes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ovnmig.core.bfd import Profile
from ovnmig.core.migration import MigrationRecord, MigrationRequest
from ovnmig.core.replication import Standby
from ovnmig.core.rows import Change, Committed
from ovnmig.core.transfer import (
    AnnounceOrder,
    AnnounceStatus,
    HeldOrder,
    NodeStatus,
    Readiness,
    ReadinessOrder,
    TransferOrder,
    TransferStatus,
)
from ovnmig.core.udn import Placement, Problem, UdnRequest, UdnSpec
from ovnmig.core.views import NbView, SbView


class DatabaseUnavailable(Exception):
    """The database cannot be reached or answers stale data; nothing was written."""


class AgentUnreachable(Exception):
    """No agent answered on that chassis (or its certificate does not name it); the order may not have
    arrived."""


class AgentRefused(Exception):
    """The agent understood and refused; the text says why."""


class Northbound(Protocol):
    """The Northbound database."""

    async def view(self) -> NbView:
        """All the core needs, at one instant. Raises DatabaseUnavailable."""

    async def apply(self, change: Change) -> Committed:
        """Make the change in one transaction. Raises EpochConflict, DatabaseUnavailable, core.udn.Refused on
        a constraint."""

    async def bfd(self) -> Mapping[str, str]:
        """The BFD intervals as they are set (keys of ``core.bfd``). Raises DatabaseUnavailable."""

    async def set_bfd(self, wanted: Mapping[str, str]) -> bool:
        """Set them to exactly these, no other option touched; False: they were so. Raises
        DatabaseUnavailable."""

    async def wait_changed(self, timeout_s: float) -> bool:
        """Return when a row ovnmig reads may have changed (True), or at the time-out (False)."""

    async def healthy(self) -> str:
        """Empty when connected and fresh, else what is wrong, in words."""

    async def try_lock(self) -> bool:
        """True while this process holds the OVSDB lock that makes it the active controller."""


class Southbound(Protocol):
    """The Southbound database, read-only."""

    async def view(self) -> SbView:
        """All the core needs, at one instant. Raises DatabaseUnavailable."""

    async def wait_until(self, predicate: Callable[[SbView], bool], timeout_s: float) -> bool:
        """Re-evaluate on every change of SB; True as soon as it holds, False at the time-out."""

    async def healthy(self) -> str:
        """Empty when connected and fresh, else what is wrong, in words."""


class Agents(Protocol):
    """The node helpers, addressed by chassis name. Every call raises AgentUnreachable or AgentRefused."""

    async def node(self, chassis: str) -> NodeStatus: ...

    async def readiness(self, chassis: str, order: ReadinessOrder) -> Readiness: ...

    async def start_transfer(self, chassis: str, order: TransferOrder) -> TransferStatus: ...

    async def transfer(self, chassis: str, transfer_id: str) -> TransferStatus | None:
        """``None``: that agent knows no such transfer (it restarted, or it was ended)."""

    async def finish_transfer(self, chassis: str, transfer_id: str) -> TransferStatus:
        """Send the final delta and return once the target has acknowledged it."""

    async def end_transfer(self, chassis: str, transfer_id: str) -> None:
        """End it; not an error when unknown."""

    async def arm(self, chassis: str, order: AnnounceOrder) -> AnnounceStatus: ...

    async def announcement(self, chassis: str, announce_id: str) -> AnnounceStatus | None: ...

    async def disarm(self, chassis: str, announce_id: str) -> None: ...

    async def orders(self, chassis: str) -> tuple[HeldOrder, ...]:
        """Everything it holds until told to stop, other deployments' orders too; nothing from an agent of a
        release that cannot tell."""


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """One line of history: what happened, to which UDN and migration, caused by what."""

    seq: int
    at: float
    kind: str
    udn: str
    migration: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)


class History(Protocol):
    """Events and ended migrations for people; losing it loses no session."""

    async def append(
        self, *, at: float, kind: str, udn: str, migration: str, message: str, details: Mapping[str, object]
    ) -> JournalEvent: ...

    async def read(
        self, *, after: int = 0, limit: int = 1000, migration: str | None = None
    ) -> tuple[JournalEvent, ...]: ...

    async def keep(self, record: MigrationRecord) -> None:
        """Keep an ended migration; one that is kept already is replaced."""

    async def kept(self, migration_id: str) -> MigrationRecord | None:
        """The ended migration of that id; ``None``: not known here."""

    async def all_kept(self, *, udn: str | None = None, limit: int = 1000) -> tuple[MigrationRecord, ...]:
        """The newest ended migrations (of one UDN), the newest first."""


class Clock(Protocol):
    """Time, so that tests can give it."""

    def now(self) -> float:
        """Unix seconds."""

    async def sleep(self, delay_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class UdnState:
    """A UDN as REST shows it."""

    spec: UdnSpec
    epoch: int
    placement: Placement
    owner: str
    """Chassis that owns the DGP in SB now; empty when unclaimed."""
    router: str
    protected: bool
    """Two or more members: the gateway survives its node."""
    drift: tuple[str, ...]
    """Differences between the rows and the spec, in words; empty when there are none."""
    migration: str | None
    """Id of the migration in flight."""
    changed: bool = True
    """On create and change: False when the request changed nothing."""
    replication: tuple[Standby, ...] = ()
    """Each standby's copy under continuous replication, as the leader last saw it."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A chassis with its agent's word."""

    chassis: str
    hostname: str
    encap_ips: tuple[str, ...]
    physical_networks: tuple[str, ...]
    gateway_preferred: bool
    agent: NodeStatus | None
    agent_problem: str
    gateways: tuple[str, ...]
    """UDNs whose gateway this chassis owns now."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A preflight without consequences: problems that would stop the migration, and what it would do, in
    words."""

    problems: tuple[Problem, ...]
    plan: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """Readiness of the service. ``role`` is ``leader`` or ``standby``."""

    ready: bool
    role: str
    problems: tuple[str, ...]


class NotFound(Exception):
    """No UDN, migration or chassis of that name; the text names it."""


class Conflict(Exception):
    """The request is fine but clashes with what is going on; the text says what to do."""


class NotLeader(Exception):
    """This replica only serves reads; the text says so."""


class ControllerApi(Protocol):
    """What the service calls. Raises Refused (core.udn), NotFound, Conflict, NotLeader, DatabaseUnavailable,
    AgentUnreachable."""

    async def create_udn(self, request: UdnRequest) -> UdnState: ...

    async def change_udn(self, name: str, request: UdnRequest) -> UdnState: ...

    async def delete_udn(self, name: str) -> None: ...

    async def udn(self, name: str) -> UdnState: ...

    async def udns(self) -> tuple[UdnState, ...]: ...

    async def move_gateway(
        self,
        name: str,
        target: str,
        *,
        overlap_s: float,
        allow_interruption: bool = False,
        idempotency_key: str | None,
    ) -> MigrationRecord: ...

    async def migrate(self, request: MigrationRequest) -> MigrationRecord:
        """Accept a migration (the record is in NB on return); the running one under the same idempotency
        key."""

    async def dry_run(self, request: MigrationRequest) -> DryRun: ...

    async def migration(self, migration_id: str) -> MigrationRecord: ...

    async def migrations(self, *, udn: str | None = None) -> tuple[MigrationRecord, ...]: ...

    async def old_migration(self, migration_id: str) -> MigrationRecord:
        """An ended migration from this controller's history, also one that no record row holds any more."""

    async def old_migrations(self, *, udn: str | None = None) -> tuple[MigrationRecord, ...]:
        """The newest ended migrations in this controller's history (at most 1000), the newest first; also
        those of UDNs that are gone."""

    async def switch(self, migration_id: str) -> MigrationRecord: ...

    async def cancel(self, migration_id: str) -> MigrationRecord: ...

    async def nodes(self) -> tuple[NodeState, ...]: ...

    async def bfd(self) -> Mapping[str, str]:
        """How fast OVN notices a dead gateway node, as options of NB_Global."""

    async def set_bfd(self, profile: Profile) -> Mapping[str, str]:
        """Set the intervals of that profile for the whole deployment."""

    async def health(self) -> Health: ...

    def events(self, *, after: int | None = None, follow: bool = True) -> AsyncIterator[JournalEvent]:
        """History from ``after`` (exclusive; ``None``: only what is new), then live events until closed."""
