"""Keeps the standing transfers and announcements of UDNs with continuous replication as the core wants them.

It remembers only to save calls: a new process does everything again, and every order is harmless twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace

from ovnmig.core import document, orders, placement, replication, topology
from ovnmig.core.document import UdnDocument
from ovnmig.core.replication import Order, Standby, Standing, Wanted
from ovnmig.core.rows import Change, EpochConflict
from ovnmig.core.transfer import Peer, TransferState, TransferStatus
from ovnmig.core.udn import Refused, Replication
from ovnmig.core.views import SbView
from ovnmig.engine import store
from ovnmig.engine.moves import Moves
from ovnmig.engine.perform import AGENT_ERRORS
from ovnmig.engine.protocols import AgentRefused, Agents, DatabaseUnavailable
from ovnmig.engine.runner import Outside
from ovnmig.engine.store import Stored

_RUNS = (TransferState.IN_STEP, TransferState.COPYING)


@dataclass
class _Known:
    """What this process has seen and done for one UDN."""

    document: UdnDocument
    owner: str = ""
    epoch: int = 0
    since: float = 0.0
    wanted: Wanted = field(default_factory=Wanted)
    undone: set[tuple[str, Order]] = field(default_factory=set)
    standbys: dict[str, Standby] = field(default_factory=dict)
    leaving: bool = False


@dataclass(frozen=True)
class _Todo:
    """What one look found out about one UDN."""

    known: _Known
    stored: Stored
    sb: SbView
    raise_owner: str
    raise_after_s: float


class Replicator:
    """One for all UDNs. :meth:`run` is called again and again while this replica leads."""

    def __init__(self, outside: Outside, agents: Agents, moves: Moves) -> None:
        self._outside = outside
        self._agents = agents
        self._moves = moves
        self._known: dict[str, _Known] = {}

    def standbys(self, udn: str) -> tuple[Standby, ...]:
        """A UDN's copies as they stood at the last look, by chassis. Empty on a replica that stands by."""
        known = self._known.get(udn)
        return () if known is None else tuple(known.standbys[name] for name in sorted(known.standbys))

    def problems(self) -> list[str]:
        """Every copy that is not in step, in words."""
        found = ((udn, replication.alarm(one)) for udn in sorted(self._known) for one in self.standbys(udn))
        return [f"UDN {udn!r}: {words}" for udn, words in found if words]

    def forget(self) -> None:
        """The lead is lost: whoever leads next looks for itself. What runs on agents goes on."""
        self._known.clear()

    async def run(self, pause_s: float) -> None:
        """One look, its orders, and ``pause_s`` until the next one. Raises DatabaseUnavailable.

        A gateway that changes its owner meanwhile withdraws the orders: those to an agent whose node has just
        died would last until they time out, and nothing may wait for them then.
        """
        todo = await self._look()
        if not self._known:
            await self._outside.clock.sleep(pause_s)
            return
        owners = {udn: known.owner for udn, known in self._known.items()}
        documents = {udn: known.document for udn, known in self._known.items()}

        def changed(sb: SbView) -> bool:
            return any(_owner(documents[udn], sb) != owners[udn] for udn in owners)

        away: DatabaseUnavailable | None = None
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._carry_out(todo))
            try:
                while not await self._outside.southbound.wait_until(changed, pause_s):
                    if work.done():
                        return
                work.cancel()
            except DatabaseUnavailable as error:
                away = error
        if away is not None:
            raise away

    async def _look(self) -> list[_Todo]:
        """What holds in the databases, and what follows from it."""
        nb, sb = await self._outside.northbound.view(), await self._outside.southbound.view()
        replicated = {
            stored.document.spec.name: stored
            for stored in store.readable(nb)
            if stored.document.spec.replication is Replication.CONTINUOUS
        }
        for udn, known in list(self._known.items()):
            if udn not in replicated and not known.leaving:
                # All of it once more, whatever dismiss() did: a look may have run beside it.
                known.leaving, known.wanted = True, Wanted()
                known.standbys.clear()
                self._outside.counters.replication_seen(udn, ())
                self._want(known, replication.nothing(known.document))
        return [self._judge(stored, sb) for stored in replicated.values()]

    async def _carry_out(self, todo: list[_Todo]) -> None:
        served = {one.stored.document.spec.name for one in todo}
        async with asyncio.TaskGroup() as group:
            for udn, known in list(self._known.items()):
                if udn not in served:
                    group.create_task(self._tidy(udn, known))
            for one in todo:
                group.create_task(self._serve(one))

    async def dismiss(self, old: UdnDocument) -> None:
        """End everything of a UDN before its record stops asking for it; who is away is told later."""
        if old.spec.replication is Replication.NONE:
            return
        known = self._known.setdefault(old.spec.name, _Known(old))
        known.document = old
        self._want(known, replication.nothing(old))
        await self._undo(known)

    async def _tidy(self, udn: str, known: _Known) -> None:
        await self._undo(known)
        if not known.undone:
            self._known.pop(udn, None)

    def _want(self, known: _Known, wanted: Wanted) -> None:
        """Take note; what has to end is tried until it is done, or wanted otherwise."""
        if wanted != known.wanted:
            known.undone = {("end", one) for one in wanted.end} | {("disarm", one) for one in wanted.disarm}
            known.wanted = wanted

    async def _undo(self, known: _Known) -> None:
        async def undo(what: str, order: Order) -> None:
            call = self._agents.end_transfer if what == "end" else self._agents.disarm
            if not await _problem(call(order.chassis, order.id)):
                known.undone.discard((what, order))

        async with asyncio.TaskGroup() as group:
            for what, order in list(known.undone):
                group.create_task(undo(what, order))

    def _judge(self, stored: Stored, sb: SbView) -> _Todo:
        spec = stored.document.spec
        known = self._known.setdefault(spec.name, _Known(stored.document))
        known.document, known.leaving = stored.document, False
        owner, now = _owner(stored.document, sb), self._outside.clock.now()
        if (owner, stored.epoch) != (known.owner, known.epoch):
            known.owner, known.epoch, known.since = owner, stored.epoch, now
        running = self._moves.in_flight(spec.name) or stored.document.migration
        wanted = replication.wanted(stored.document, owner, now - known.since, running)
        if owner:
            self._want(known, replace(wanted, raise_owner="", raise_after_s=0.0))
        standing = {one.target for one in known.wanted.transfers}
        for gone in set(known.standbys) - standing:
            del known.standbys[gone]
            self._outside.counters.replication_seen(spec.name, self.standbys(spec.name))
        return _Todo(known, stored, sb, wanted.raise_owner, wanted.raise_after_s)

    async def _serve(self, todo: _Todo) -> None:
        known, stored = todo.known, todo.stored
        standing = {one.target: one for one in known.wanted.transfers}
        async with asyncio.TaskGroup() as group:
            if todo.raise_owner:
                group.create_task(self._raise(stored, todo.raise_owner, todo.raise_after_s))
            group.create_task(self._undo(known))
            for order in known.wanted.arm:
                if order.chassis not in standing:
                    group.create_task(_problem(self._arm(order, stored)))
            for one in standing.values():
                group.create_task(self._keep(known, one, stored, todo.sb))

    async def _raise(self, seen: Stored, owner: str, after_s: float) -> None:
        """Put whoever took over first in the HA set, so that a node that comes back draws nothing to it."""
        udn, epoch = seen.document.spec.name, seen.epoch
        if after_s:
            await self._outside.clock.sleep(after_s)
        async with self._moves.lock(udn):
            try:
                stored = store.find(await self._outside.northbound.view(), udn)
                if stored is None or stored.epoch != epoch or self._moves.in_flight(udn) is not None:
                    return
                old = stored.document
                former = placement.by_rank(old.members)[0].chassis
                after = replace(old, members=placement.raised(old.members, owner))
                rows = topology.rows(after.spec, after.members)
                await self._outside.northbound.apply(Change(udn, epoch, document.encode(after), rows))
            except (EpochConflict, Refused, DatabaseUnavailable) as error:
                await self._outside.journal.write(
                    "failover", f"{owner} has the gateway; it could not be put first: {error}", udn=udn
                )
                return
        self._outside.counters.failed_over(udn)
        words = f"{owner} took the gateway over from {former} and keeps it until somebody moves it"
        await self._outside.journal.write("failover", words, udn=udn, details={"from": former, "to": owner})

    async def _keep(self, known: _Known, one: Standing, stored: Stored, sb: SbView) -> None:
        arm = next(order for order in known.wanted.arm if order.chassis == one.target)
        problem = await _problem(self._arm(arm, stored))
        status: TransferStatus | None = None
        try:
            status = await self._agents.transfer(one.source, one.id)
            if (status is None or status.state not in _RUNS) and not problem:
                began = await self._start(one, stored, sb)
                status = status or began
        except AGENT_ERRORS as error:
            problem = problem or str(error)
        now = replication.judge(one.target, status, problem, self._outside.clock.now())
        await self._note(known, now)

    async def _arm(self, order: Order, stored: Stored) -> None:
        await self._agents.arm(
            order.chassis, orders.announcement(order.id, stored.document.spec, stored.epoch)
        )

    async def _start(self, one: Standing, stored: Stored, sb: SbView) -> TransferStatus:
        chassis = sb.find_chassis(one.target)
        if chassis is None or not chassis.encap_ips:
            raise AgentRefused(f"chassis {one.target} has no encap address in the Southbound database")
        node = await self._agents.node(one.target)
        spec = stored.document.spec
        datapath = sb.datapaths.get(topology.gateway_names(spec).router, "")
        peer = Peer(one.target, chassis.encap_ips[0], node.stream_port)
        order = replication.transfer_order(one, spec, stored.epoch, datapath, peer)
        try:
            return await self._agents.start_transfer(one.source, order)
        except AgentRefused:
            # It runs with another address or zone, or under a later epoch: the next look begins anew.
            await self._agents.end_transfer(one.source, one.id)
            raise

    async def _note(self, known: _Known, now: Standby) -> None:
        udn, before = known.document.spec.name, known.standbys.get(now.chassis)
        known.standbys[now.chassis] = now
        self._outside.counters.replication_seen(udn, self.standbys(udn))
        if before is None or before.state is not now.state:
            words = replication.alarm(now) or f"the copy on {now.chassis} is in step"
            details = {"chassis": now.chassis, "state": now.state.value, "owner": known.owner}
            await self._outside.journal.write("replication", words, udn=udn, details=details)


def _owner(of: UdnDocument, sb: SbView) -> str:
    binding = sb.binding(topology.gateway_names(of.spec).chassis_redirect_port)
    return binding.chassis if binding else ""


async def _problem(call: Awaitable[object]) -> str:
    try:
        await call
    except AGENT_ERRORS as error:
        return str(error) or type(error).__name__
    return ""
