"""UDNs: create, change, delete, show, with the placement explained and drift named."""

from __future__ import annotations

from dataclasses import replace

from ovnmig.core import document, drift, placement, topology, validate
from ovnmig.core.document import UdnDocument
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.rows import Change, EpochConflict
from ovnmig.core.udn import Member, Placement, Problem, Refused, Replication, UdnRequest, UdnSpec
from ovnmig.core.views import NbView, SbView
from ovnmig.engine import store
from ovnmig.engine.moves import ATTEMPTS, Moves
from ovnmig.engine.protocols import Conflict, NotFound, UdnState
from ovnmig.engine.replicator import Replicator
from ovnmig.engine.runner import Outside
from ovnmig.engine.store import Stored


class Udns:
    """Desired state of gateways. Every write is one transaction, and none while a migration is in flight."""

    def __init__(self, outside: Outside, moves: Moves, replicator: Replicator, owner: str) -> None:
        self._outside = outside
        self._moves = moves
        self._replicator = replicator
        self._owner = owner

    async def create(self, request: UdnRequest) -> UdnState:
        """Create it; an identical request changes nothing. Raises Refused, Conflict."""
        async with self._moves.lock(request.name):
            for _ in range(ATTEMPTS):
                nb, sb = await self._views()
                stored = store.find(nb, request.name)
                if stored is not None:
                    return self._same(request, stored, nb, sb)
                spec = self._resolve(request, nb, sb, None)
                placed = placement.choose(spec, nb, sb)
                fresh = UdnDocument(spec, placed.members, grown_at=self._outside.clock.now())
                try:
                    await self._write(fresh, None)
                except EpochConflict:
                    continue
                await self._outside.journal.write("udn-created", "created", udn=spec.name)
                return await self.show(spec.name)
        raise Conflict(f"UDN {request.name!r} is being changed by somebody else; ask again")

    def _same(self, request: UdnRequest, stored: Stored, nb: NbView, sb: SbView) -> UdnState:
        current = stored.document.spec
        if self._resolve(request, nb, sb, current) != current:
            words = f"UDN {request.name!r} exists with another specification; change or delete it"
            raise Refused((Problem("udn-exists", words, "name", conflict=True),))
        return replace(self.state(stored, nb, sb), changed=False)

    async def change(self, name: str, request: UdnRequest) -> UdnState:
        """Make it so; also repairs drift. Raises NotFound, Refused, Conflict."""
        async with self._moves.lock(name):
            for _ in range(ATTEMPTS):
                nb, sb = await self._views()
                stored = self._find(nb, name)
                self._free(stored)
                spec = self._resolve(request, nb, sb, stored.document.spec)
                # Asking for a standby is the word for the second of silence it costs a lone gateway.
                grow = spec.standby_count > stored.document.spec.standby_count
                placed = placement.choose(spec, nb, sb, current=stored.document.members, grow=grow)
                _keep_owner(stored.document, placed)
                if spec.replication is Replication.NONE:
                    await self._replicator.dismiss(stored.document)
                wanted = replace(stored.document, spec=spec, members=placed.members)
                if _names(placed.members) - _names(stored.document.members):
                    wanted = replace(wanted, grown_at=self._outside.clock.now())
                try:
                    wrote = await self._write(wanted, stored.epoch)
                except EpochConflict:
                    continue
                if wrote:
                    await self._outside.journal.write("udn-changed", "changed", udn=name)
                return replace(await self.show(name), changed=wrote)
        raise Conflict(f"UDN {name!r} is being changed by somebody else; ask again")

    async def delete(self, name: str) -> None:
        """Delete every row of ours. Raises NotFound, Conflict."""
        async with self._moves.lock(name):
            for _ in range(ATTEMPTS):
                nb = await self._outside.northbound.view()
                stored = self._find(nb, name)
                self._free(stored)
                await self._replicator.dismiss(stored.document)
                try:
                    await self._outside.northbound.apply(Change(name, stored.epoch, None, rows=()))
                except EpochConflict:
                    continue
                await self._outside.journal.write("udn-deleted", "deleted", udn=name)
                return
        raise Conflict(f"UDN {name!r} is being changed by somebody else; ask again")

    async def show(self, name: str) -> UdnState:
        """One UDN. Raises NotFound."""
        nb, sb = await self._views()
        return self.state(self._find(nb, name), nb, sb)

    async def every(self) -> tuple[UdnState, ...]:
        """All UDNs of this deployment whose row can be read, by name."""
        nb, sb = await self._views()
        states = [self.state(stored, nb, sb) for stored in store.readable(nb)]
        return tuple(sorted(states, key=lambda state: state.spec.name))

    def state(self, stored: Stored, nb: NbView, sb: SbView) -> UdnState:
        """A UDN as people see it."""
        spec, members = stored.document.spec, stored.document.members
        binding = sb.binding(topology.gateway_names(spec).chassis_redirect_port)
        running = self._in_flight(stored)
        try:
            reasons = placement.choose(spec, nb, sb, current=members).reasons
        except Refused as refused:
            reasons = {"": str(refused)}
        return UdnState(
            spec=spec,
            epoch=stored.epoch,
            placement=Placement(members, reasons),
            owner=binding.chassis if binding else "",
            router=topology.gateway_names(spec).router,
            protected=len(members) > 1,
            drift=drifted(stored.document, nb),
            migration=running.id if running else None,
            replication=self._replicator.standbys(spec.name),
        )

    def _in_flight(self, stored: Stored) -> MigrationRecord | None:
        return self._moves.in_flight(stored.document.spec.name) or stored.document.migration

    def _free(self, stored: Stored) -> None:
        running = self._in_flight(stored)
        if running is not None:
            words = f"migration {running.id} of this UDN is {running.phase.value}"
            raise Conflict(f"{words}; wait until it has ended, or cancel it before it switches")

    def _find(self, nb: NbView, name: str) -> Stored:
        stored = store.find(nb, name)
        if stored is None:
            raise NotFound(f"no UDN {name!r}")
        return stored

    def _resolve(self, request: UdnRequest, nb: NbView, sb: SbView, current: UdnSpec | None) -> UdnSpec:
        return validate.resolve(
            request,
            nb,
            sb,
            owner=self._owner,
            current=current,
            zone_range=self._outside.options.zone_range,
        )

    async def _views(self) -> tuple[NbView, SbView]:
        return await self._outside.northbound.view(), await self._outside.southbound.view()

    async def _write(self, wanted: UdnDocument, epoch: int | None) -> bool:
        change = Change(
            udn=wanted.spec.name,
            expected_epoch=epoch,
            document=document.encode(wanted),
            rows=topology.rows(wanted.spec, wanted.members),
        )
        return (await self._outside.northbound.apply(change)).wrote


def _names(members: tuple[Member, ...]) -> set[str]:
    return {member.chassis for member in members}


def drifted(stored: UdnDocument, nb: NbView) -> tuple[str, ...]:
    """How the UDN's rows differ from what its record says, in words."""
    owned = [row for row in nb.owned if row.udn == stored.spec.name]
    differences = drift.words(drift.diff(owned, topology.rows(stored.spec, stored.members)))
    port = topology.gateway_names(stored.spec).external_port
    return differences + drift.strangers(nb, port, stored.members)


def _keep_owner(current: UdnDocument, placed: Placement) -> None:
    """A change must not move the gateway: its sessions would not come along."""
    active = max(current.members, default=None)
    if active is not None and max(placed.members).chassis != active.chassis:
        words = f"this change would take the gateway away from {active.chassis} without its sessions"
        raise Refused(
            (Problem("would-move-gateway", f"{words}; move the gateway first", "chassis", conflict=True),)
        )
