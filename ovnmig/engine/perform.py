"""Carries out the machine's orders on agents and SB, and turns what comes of them into events. Decides
nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ovnmig.core import judge, legs, orders, topology
from ovnmig.core.effects import Arm, Copy, Effect, EndTransfers, Finish, ObserveOwner, ObserveTarget, Overlap
from ovnmig.core.events import (
    Armed,
    CopyObserved,
    Event,
    Finished,
    OverlapObserved,
    OwnerObserved,
    TargetObserved,
    TransfersEnded,
)
from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.transfer import AnnounceState, ReadinessOrder, TransferState, TransferStatus
from ovnmig.core.udn import UdnSpec
from ovnmig.core.views import SbView
from ovnmig.engine.protocols import AgentRefused, Agents, AgentUnreachable, DatabaseUnavailable, Southbound

AGENT_ERRORS = (AgentUnreachable, AgentRefused)


@dataclass(frozen=True, slots=True)
class Job:
    """One order with what is needed to carry it out."""

    effect: Effect
    record: MigrationRecord
    spec: UdnSpec
    epoch: int


class Performer:
    """Every public order is idempotent and ends with an event, whatever fails on the way."""

    def __init__(self, southbound: Southbound, agents: Agents) -> None:
        self._southbound = southbound
        self._agents = agents

    async def perform(self, job: Job) -> Event:
        """Carry out one order. Raises ValueError for an effect that is not an order to agents or SB."""
        match job.effect:
            case ObserveTarget():
                return await self._observe_target(job)
            case Copy(start=start):
                return await self._copy(job, start)
            case Arm():
                return await self._arm(job)
            case Finish():
                return await self._finish(job)
            case ObserveOwner():
                return await self._observe_owner(job)
            case Overlap():
                return await self._overlap(job)
            case EndTransfers():
                return await self._end(job)
            case other:
                raise ValueError(f"{other!r} is no order to agents or SB")

    async def _observe_target(self, job: Job) -> TargetObserved:
        try:
            view = await self._southbound.view()
        except DatabaseUnavailable as error:
            return TargetObserved(0, None, f"the Southbound database: {error}")
        chassis = view.find_chassis(job.record.target)
        if chassis is None:
            return TargetObserved(0, None, f"chassis {job.record.target} is not in the Southbound database")
        try:
            order = orders.readiness(job.record, job.spec, _datapath(job, view))
            readiness = await self._agents.readiness(job.record.target, order)
        except AGENT_ERRORS as error:
            return TargetObserved(chassis.nb_cfg, None, _words(job.record.target, error))
        return TargetObserved(chassis.nb_cfg, readiness)

    async def _copy(self, job: Job, start: tuple[Leg, ...]) -> CopyObserved:
        statuses: dict[Leg, TransferStatus | None] = {}
        there = False
        try:
            for leg in legs.forward_legs(job.record):
                if leg is Leg.PORT:
                    statuses[leg] = await self._port_leg(job, leg in start)
                else:
                    statuses[leg] = await self._leg(job, leg, leg in start)
            if Leg.PORT in statuses and statuses[Leg.PORT] is None:
                there = await self._port_zone_there(job)
            elif legs.lagging(job.record, statuses, there, port_lost=False):
                # A source agent tries for long to reach a target that is gone; asking the target tells at
                # once.
                await self._agents.node(job.record.target)
        except AGENT_ERRORS as error:
            return CopyObserved(statuses, there, str(error))
        except DatabaseUnavailable as error:
            return CopyObserved(statuses, there, away=str(error))
        return CopyObserved(statuses, there)

    async def _leg(self, job: Job, leg: Leg, start: bool) -> TransferStatus | None:
        if start:
            return await self._start(job, leg)
        return await self._agents.transfer(_source(job.record, leg), legs.transfer_id(job.record, leg))

    async def _port_leg(self, job: Job, start: bool) -> TransferStatus | None:
        """The VM's own zone never holds up its gateway: a failure of its leg is a status, not an error."""
        try:
            return await self._leg(job, Leg.PORT, start)
        except AGENT_ERRORS as error:
            reason = _words(job.record.port_source, error)
            return TransferStatus(
                legs.transfer_id(job.record, Leg.PORT), TransferState.FAILED, legs.total(()), reason=reason
            )

    async def _port_zone_there(self, job: Job) -> bool:
        if job.record.port is None:
            return False
        zone = legs.port_zone(job.record.port)
        readiness = await self._agents.readiness(job.record.target, ReadinessOrder((zone,)))
        return zone.key in readiness.zones

    async def _start(self, job: Job, leg: Leg) -> TransferStatus:
        view = await self._southbound.view()
        router = topology.gateway_names(job.spec).router
        plan = legs.plan(job.record, leg, router, _datapath(job, view))
        chassis = view.find_chassis(plan.target)
        if chassis is None or not chassis.encap_ips:
            raise AgentUnreachable(f"chassis {plan.target} has no encap address in the Southbound database")
        node = await self._agents.node(plan.target)
        host, port = chassis.encap_ips[0], node.stream_port
        order = orders.transfer(plan, job.record, job.spec, job.epoch, host, port)
        return await self._agents.start_transfer(plan.source, order)

    async def _arm(self, job: Job) -> Armed:
        try:
            order = orders.announcement(job.record.id, job.spec, job.epoch, job.record.id)
            status = await self._agents.arm(job.record.target, order)
        except AGENT_ERRORS as error:
            return Armed(_words(job.record.target, error))
        if status.state is AnnounceState.FAILED:
            return Armed(status.reason or "the agent could not arm the announcement")
        return Armed()

    async def _finish(self, job: Job) -> Finished:
        """The gateway's leg last, so that its final delta is as young as it can be when the switch is
        written."""
        statuses: dict[Leg, TransferStatus | None] = {}
        wanted = legs.forward_legs(job.record)
        if Leg.PORT in wanted:
            statuses[Leg.PORT] = await self._finish_port(job)
        if Leg.GATEWAY in wanted:
            try:
                statuses[Leg.GATEWAY] = await self._agents.finish_transfer(
                    job.record.source, legs.transfer_id(job.record, Leg.GATEWAY)
                )
            except AGENT_ERRORS as error:
                return Finished(statuses, _words(job.record.source, error))
        return Finished(statuses)

    async def _finish_port(self, job: Job) -> TransferStatus | None:
        status = await self._port_leg(job, start=False)
        if status is None or status.state is TransferState.FAILED:
            return status
        try:
            return await self._agents.finish_transfer(
                job.record.port_source, legs.transfer_id(job.record, Leg.PORT)
            )
        except AGENT_ERRORS as error:
            return TransferStatus(
                status.id, TransferState.FAILED, status.counts, reason=_words(job.record.port_source, error)
            )

    async def _observe_owner(self, job: Job) -> OwnerObserved:
        try:
            view = await self._southbound.view()
        except DatabaseUnavailable:
            return OwnerObserved(job.record.owner, vm_on_target=False)
        return OwnerObserved(_owner(job, view), _vm_on_target(job, view))

    async def _overlap(self, job: Job) -> OverlapObserved:
        statuses: dict[Leg, TransferStatus | None] = {}
        problems = []
        try:
            owner = _owner(job, await self._southbound.view())
        except DatabaseUnavailable as error:
            owner = ""
            problems.append(f"the Southbound database: {error}")
        wanted = [*legs.forward_legs(job.record), *([Leg.BACK] if legs.has_way_back(job.record) else [])]
        for leg in wanted:
            try:
                statuses[leg] = await self._leg(job, leg, start=False)
                if leg is Leg.BACK and _must_start(statuses[leg]):
                    statuses[leg] = await self._start(job, leg)
            except AGENT_ERRORS as error:
                problems.append(f"{leg.value} leg: {_words(_source(job.record, leg), error)}")
            except DatabaseUnavailable as error:
                problems.append(f"the Southbound database: {error}")
        return OverlapObserved(owner, statuses, "; ".join(dict.fromkeys(problems)))

    async def _end(self, job: Job) -> TransfersEnded:
        problems: list[str] = []
        record = job.record
        wanted = list(legs.forward_legs(record))
        if record.switched_at is not None and legs.has_way_back(record):
            wanted.append(Leg.BACK)

        async def end(leg: Leg) -> None:
            try:
                await self._agents.end_transfer(_source(record, leg), legs.transfer_id(record, leg))
            except AGENT_ERRORS as error:
                problems.append(f"{leg.value} leg not ended: {_words(_source(record, leg), error)}")

        async def disarm() -> None:
            try:
                await self._agents.disarm(record.target, record.id)
            except AGENT_ERRORS as error:
                problems.append(f"announcement not disarmed: {_words(record.target, error)}")

        # All at once: a dead node's time-out must not delay the others' end.
        async with asyncio.TaskGroup() as group:
            for leg in wanted:
                group.create_task(end(leg))
            if record.moves_gateway:
                group.create_task(disarm())
        words = "; ".join(sorted(problems))
        try:
            view = await self._southbound.view()
        except DatabaseUnavailable:
            return TransfersEnded("", None, words)
        return TransfersEnded(_owner(job, view), _vm_on_target(job, view), words)


def _source(record: MigrationRecord, leg: Leg) -> str:
    return {Leg.GATEWAY: record.source, Leg.PORT: record.port_source, Leg.BACK: record.target}[leg]


def _must_start(status: TransferStatus | None) -> bool:
    return status is None or status.state is TransferState.FAILED


def _words(chassis: str, error: Exception) -> str:
    return f"agent of {chassis}: {error}"


def _datapath(job: Job, view: SbView) -> str:
    return view.datapaths.get(topology.gateway_names(job.spec).router, "")


def _owner(job: Job, view: SbView) -> str:
    binding = view.binding(topology.gateway_names(job.spec).chassis_redirect_port)
    return binding.chassis if binding else ""


def _vm_on_target(job: Job, view: SbView) -> bool:
    if job.record.port is None:
        return False
    return judge.arrived(view.binding(job.record.port), job.record.target)
