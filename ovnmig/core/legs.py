"""The transfers of a migration (its legs): which are needed, their names, zones and what their answers amount
to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from ovnmig.core.migration import MigrationRecord, TransferMode
from ovnmig.core.transfer import Counts, TransferState, TransferStatus, ZoneKind, ZoneRef


class Leg(StrEnum):
    """One transfer. The VM's own port zone has a leg of its own: its node may not be the gateway's, and the
    zone exists on the target only once the VM is plugged there, which may be long after the gateway's entries
    are in step."""

    GATEWAY = "gateway"
    PORT = "port"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class LegPlan:
    """A transfer in terms of chassis: from whom, to whom, which zones."""

    leg: Leg
    id: str
    source: str
    target: str
    zones: tuple[ZoneRef, ...]


_SUFFIX = {Leg.GATEWAY: "", Leg.PORT: "-port", Leg.BACK: "-back"}


def transfer_id(record: MigrationRecord, leg: Leg) -> str:
    """The id an agent knows this leg by."""
    return record.id + _SUFFIX[leg]


def forward_legs(record: MigrationRecord) -> tuple[Leg, ...]:
    """The legs that must be in step before the switch. None with ``transfer: none``, or where there is
    nothing to copy from."""
    if record.transfer is TransferMode.NONE:
        return ()
    legs = []
    if record.moves_gateway and record.source not in ("", record.target):
        legs.append(Leg.GATEWAY)
    if record.port is not None and record.port_source not in ("", record.target):
        legs.append(Leg.PORT)
    return tuple(legs)


def has_way_back(record: MigrationRecord) -> bool:
    """Whether the target replicates to the source in the overlap. A port zone has no way back: OVN flushes it
    on unbinding."""
    return Leg.GATEWAY in forward_legs(record)


def router_zones(router: str, datapath: str) -> tuple[ZoneRef, ...]:
    """Both zones of a router. OVN translates in ``dnat`` before 23.06 unless ``snat-ct-zone`` is set, else in
    ``snat``."""
    return (
        ZoneRef(ZoneKind.SNAT, router, datapath),
        ZoneRef(ZoneKind.DNAT, router, datapath, required=False),
    )


def port_zone(port: str) -> ZoneRef:
    """The zone of a VM's port; it exists only with stateful rules in use, and only where the VM is
    plugged."""
    return ZoneRef(ZoneKind.PORT, port, required=False)


def plan(record: MigrationRecord, leg: Leg, router: str, datapath: str) -> LegPlan:
    """Who sends what to whom. Raises ValueError for a port leg of a migration without a port."""
    ident = transfer_id(record, leg)
    if leg is Leg.PORT:
        if record.port is None:
            raise ValueError(f"migration {record.id} moves no port")
        return LegPlan(leg, ident, record.port_source, record.target, (port_zone(record.port),))
    zones = router_zones(router, datapath)
    if leg is Leg.BACK:
        return LegPlan(leg, ident, record.target, record.source, zones)
    return LegPlan(leg, ident, record.source, record.target, zones)


def total(parts: Iterable[Counts]) -> Counts:
    """The sum of several legs' counts."""
    numbers = {name: 0 for name in ("read", "created", "identical", "replaced", "lost")}
    refused: dict[str, int] = {}
    kinds: dict[str, int] = {}
    for counts in parts:
        for name in numbers:
            numbers[name] += getattr(counts, name)
        for into, items in ((refused, counts.refused), (kinds, counts.kinds)):
            for key, number in items.items():
                into[key] = into.get(key, 0) + number
    return Counts(**numbers, refused=refused, kinds=kinds)


UNMOVED_MAX = 20
"""Entries named in a record: it is a row of the Northbound database, which all its clients hold in memory."""

Statuses = Mapping[Leg, TransferStatus | None]
"""Answer per leg; ``None`` where that agent knows no such transfer."""

_IN_STEP = frozenset({TransferState.IN_STEP, TransferState.FINAL})


def unfit(record: MigrationRecord, statuses: Statuses) -> str:
    """Why the gateway's leg must be started anew, in words; empty when it runs or is not needed."""
    if Leg.GATEWAY not in forward_legs(record):
        return ""
    status = statuses.get(Leg.GATEWAY)
    if status is None:
        return f"the agent of {record.source} knows no transfer {transfer_id(record, Leg.GATEWAY)}"
    if status.state is TransferState.FAILED:
        return status.reason or "the transfer failed without a reason"
    return ""


def port_failed(statuses: Statuses) -> bool:
    """The VM's own zone could not be moved. It is not tried again: on the source it dies with the VM's
    unbinding."""
    status = statuses.get(Leg.PORT)
    return status is not None and status.state is TransferState.FAILED


def port_leg_missing(record: MigrationRecord, statuses: Statuses, port_zone_there: bool) -> bool:
    """The VM is plugged on the target and its own zone is not being copied yet."""
    return Leg.PORT in forward_legs(record) and port_zone_there and statuses.get(Leg.PORT) is None


def lagging(record: MigrationRecord, statuses: Statuses, port_zone_there: bool, port_lost: bool) -> str:
    """What is not in step yet, in words; empty when everything that can be copied now is. The VM's own zone
    never holds up its gateway: a lost one is not waited for."""
    wanted = forward_legs(record)
    gateway = statuses.get(Leg.GATEWAY)
    if Leg.GATEWAY in wanted and (gateway is None or gateway.state not in _IN_STEP):
        pending = gateway.pending if gateway else 0
        return f"the copy of the gateway's entries ({pending} pending)"
    port = statuses.get(Leg.PORT)
    if Leg.PORT not in wanted or port_lost or port_failed(statuses) or (port is None and not port_zone_there):
        return ""
    return "" if port is not None and port.state in _IN_STEP else "the copy of the VM's own zone"


def final(record: MigrationRecord, statuses: Statuses) -> bool:
    """The last delta of the gateway's leg is acknowledged (where there is one)."""
    status = statuses.get(Leg.GATEWAY)
    return Leg.GATEWAY not in forward_legs(record) or (
        status is not None and status.state is TransferState.FINAL
    )


def counts_of(statuses: Statuses) -> Counts:
    """The counts of the forward legs together."""
    return total(s.counts for leg, s in sorted(statuses.items()) if s is not None and leg is not Leg.BACK)


def unmoved_of(statuses: Statuses) -> tuple[str, ...]:
    """Entries of the forward legs that could not be moved, in words: as many as a record shall hold."""
    found = (
        words
        for leg, status in sorted(statuses.items())
        if status is not None and leg is not Leg.BACK
        for words in status.refused_entries
    )
    return tuple(islice(found, UNMOVED_MAX))
