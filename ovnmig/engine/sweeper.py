"""Ends what was left behind on agents: orders that no open migration and no replicated UDN wants any more."""

from __future__ import annotations

import asyncio

from ovnmig.core import orphans, topology
from ovnmig.core.orphans import Key, Known
from ovnmig.core.transfer import HeldOrder, OrderKind
from ovnmig.core.views import NbView, SbView
from ovnmig.engine import store
from ovnmig.engine.perform import AGENT_ERRORS
from ovnmig.engine.protocols import Agents
from ovnmig.engine.runner import Outside


class Sweeper:
    """One for all agents. :meth:`look` is called again and again while this replica leads; it remembers
    nothing but what it suspects."""

    def __init__(self, outside: Outside, agents: Agents, owner: str) -> None:
        self._outside = outside
        self._agents = agents
        self._owner = owner
        self._suspected: dict[Key, float] = {}

    def forget(self) -> None:
        """The lead is lost: suspicions begin anew with the next one."""
        self._suspected.clear()

    async def look(self) -> None:
        """Ask every agent what it holds and end what is unwanted for the second time. An agent that does not
        answer is asked the next time. Raises DatabaseUnavailable."""
        # Agents first, the databases after them: a record is written before its orders are given.
        held = await self._held(await self._outside.southbound.view())
        nb, sb = await self._outside.northbound.view(), await self._outside.southbound.view()
        udns, unreadable = _known(nb, sb)
        reasons: dict[Key, str] = {}
        for key, order in held.items():
            words = orphans.unwanted(order, key[0], self._owner, udns, unreadable)
            if words:
                reasons[key] = words
        found = {key: held[key] for key in reasons}
        sure, self._suspected = orphans.confirmed(found, self._suspected, self._outside.clock.now())
        if sure and await self._outside.northbound.try_lock():
            async with asyncio.TaskGroup() as group:
                for key in sure:
                    group.create_task(self._end(key, held[key], reasons[key]))

    async def _held(self, sb: SbView) -> dict[Key, HeldOrder]:
        async def ask(chassis: str) -> tuple[HeldOrder, ...]:
            try:
                return await self._agents.orders(chassis)
            except AGENT_ERRORS:
                return ()

        async with asyncio.TaskGroup() as group:
            tasks = {one.name: group.create_task(ask(one.name)) for one in sb.chassis}
        return {
            (chassis, order.kind, order.id): order
            for chassis, task in tasks.items()
            for order in task.result()
        }

    async def _end(self, key: Key, order: HeldOrder, reason: str) -> None:
        chassis, kind, ident = key
        end = self._agents.end_transfer if kind is OrderKind.TRANSFER else self._agents.disarm
        try:
            await end(chassis, ident)
        except AGENT_ERRORS:
            return  # It is suspected still: the next look tries again.
        self._suspected.pop(key, None)
        self._outside.counters.orphan_ended(kind.value)
        await self._outside.journal.write(
            "orphan",
            f"ended {kind.value} {ident} that was left on {chassis}: {reason}",
            udn=order.udn,
            migration=order.migration,
            details={"chassis": chassis, "order": kind.value, "id": ident, "epoch": order.epoch},
        )


def _known(nb: NbView, sb: SbView) -> tuple[dict[str, Known], set[str]]:
    """The UDNs whose record can be read, and the names of the others."""
    udns: dict[str, Known] = {}
    for stored in store.readable(nb):
        spec = stored.document.spec
        binding = sb.binding(topology.gateway_names(spec).chassis_redirect_port)
        udns[spec.name] = Known(stored.document, stored.epoch, binding.chassis if binding else "")
    return udns, {row.udn for row in nb.records} - udns.keys()
