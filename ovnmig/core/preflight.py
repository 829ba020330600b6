"""Everything that would stop a migration, found before a row is touched; and what it would do, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ovnmig.core import drift, judge, legs, placement, rollback, topology
from ovnmig.core.document import UdnDocument
from ovnmig.core.legs import Leg
from ovnmig.core.migration import Binding, MigrationRecord, MigrationRequest, Phase, TransferMode, Trigger
from ovnmig.core.transfer import NodeStatus, Readiness
from ovnmig.core.udn import Policy, Problem, UdnSpec
from ovnmig.core.views import NbView, SbView


@dataclass(frozen=True, slots=True)
class AgentView:
    """What an agent answered; ``problem`` in words when it did not."""

    node: NodeStatus | None = None
    readiness: Readiness | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """The databases and what stands in the UDN's record row, read at one instant."""

    document: UdnDocument
    nb: NbView
    sb: SbView

    @property
    def spec(self) -> UdnSpec:
        """The UDN's spec."""
        return self.document.spec

    @property
    def owner(self) -> str:
        """The chassis that owns the gateway's port in SB; empty when nobody does."""
        binding = self.sb.binding(topology.gateway_names(self.spec).chassis_redirect_port)
        return binding.chassis if binding else ""

    def owner_at(self, now: float) -> str:
        """The owner; in an HA set made a moment ago (``now`` in Unix seconds) the first of it, which is about
        to claim the port."""
        if not self.owner and self.document.members and judge.set_is_young(self.document.grown_at, now):
            return placement.by_rank(self.document.members)[0].chassis
        return self.owner

    @property
    def datapath(self) -> str:
        """The router's Datapath_Binding UUID; empty before northd made it."""
        return self.sb.datapaths.get(topology.gateway_names(self.spec).router, "")


def draft(request: MigrationRequest, world: World, ident: str, now: float) -> MigrationRecord:
    """The record a request becomes, from what the databases show now. Makes no judgement."""
    binding = world.sb.binding(request.port) if request.port is not None else None
    port_source = binding.chassis if binding else ""
    source = world.owner_at(now)
    ports = {port.name: port for port in placement.vm_ports(world.spec, world.nb)}
    options = ports[request.port].options if request.port in ports else {}
    warnings = []
    if request.transfer is TransferMode.NONE:
        warnings.append("transfer: none: no entries are moved, open sessions break")
    return MigrationRecord(
        id=ident,
        udn=request.udn,
        target=request.target,
        source=source,
        port=request.port,
        port_source=port_source,
        moves_gateway=_wants_gateway(request, world) and source != request.target,
        binding=request.binding,
        trigger=request.trigger,
        transfer=request.transfer,
        overlap_s=request.overlap_s,
        phase=Phase.REQUESTED,
        created_at=now,
        phase_since=now,
        idempotency_key=request.idempotency_key,
        members_before=world.document.members,
        port_options_before=rollback.kept_options(options),
        arrived=request.port is not None and port_source == request.target,
        phase_times=((Phase.REQUESTED, now),),
        warnings=tuple(warnings),
    )


def _wants_gateway(request: MigrationRequest, world: World) -> bool:
    if request.gateway is not None:
        return request.gateway
    if world.spec.policy is Policy.PINNED:
        return False
    return request.port is None or request.port == placement.anchor_port(world.spec, world.nb)


def rows_problems(request: MigrationRequest, record: MigrationRecord, world: World) -> tuple[Problem, ...]:
    """What the databases alone say against the request."""
    return tuple(_rows_problems(request, record, world))


def _rows_problems(request: MigrationRequest, record: MigrationRecord, world: World) -> Iterator[Problem]:
    if not 0 <= request.overlap_s <= 86400:
        yield Problem("overlap", "overlap_s must be between 0 and 86400 seconds", "overlap_s")
    target = world.sb.find_chassis(request.target)
    if target is None:
        yield _unknown_chassis(request.target, world.sb)
    yield from _port_problems(request, record, world)
    if not record.moves_gateway and (record.port is None or record.port_source == record.target):
        yield _nothing_to_move(request, record)
    if target is not None and record.moves_gateway:
        yield from _gateway_problems(request, record, world)


def _unknown_chassis(name: str, sb: SbView) -> Problem:
    alias = next((c.name for c in sb.chassis if c.hostname == name), None)
    known = ", ".join(sorted(c.name for c in sb.chassis)) or "none"
    hint = f"the host of that name is chassis {alias!r}" if alias else f"known chassis: {known}"
    return Problem("unknown-chassis", f"no chassis {name!r} in the Southbound database; {hint}", "target")


def _nothing_to_move(request: MigrationRequest, record: MigrationRecord) -> Problem:
    if record.source == request.target or (record.port is not None and record.port_source == request.target):
        return Problem(
            "already-there", f"{request.target} has it already; nothing to do", "target", conflict=True
        )
    return Problem("nothing-to-move", "name a port, or ask for the gateway to move (gateway: true)", "port")


def _port_problems(request: MigrationRequest, record: MigrationRecord, world: World) -> Iterator[Problem]:
    if request.port is None:
        if request.binding is Binding.OVNMIG:
            yield Problem(
                "no-port", "binding: ovnmig needs the port whose binding ovnmig is to write", "port"
            )
        return
    ports = {port.name: port for port in placement.vm_ports(world.spec, world.nb)}
    if request.port not in ports:
        known = ", ".join(sorted(ports)[:10]) or "none yet"
        words = f"the switch of UDN {request.udn!r} has no VM port {request.port!r} (it has: {known})"
        yield Problem("unknown-port", words, "port")
        return
    if not record.port_source:
        words = (
            f"port {request.port!r} is bound nowhere; start the VM, or name no port to move only the gateway"
        )
        yield Problem("port-unbound", words, "port", conflict=True)
    requested = ports[request.port].options.get(rollback.REQUESTED, "")
    if rollback.manages_port(record) and "," in requested:
        words = (
            f"port {request.port!r} has requested-chassis={requested!r}: somebody else is migrating it; "
            "let that finish, or ask with binding: external"
        )
        yield Problem("port-busy", words, "binding", conflict=True)


def _gateway_problems(request: MigrationRequest, record: MigrationRecord, world: World) -> Iterator[Problem]:
    spec = world.spec
    if request.target not in {chassis.name for chassis in placement.eligible(spec, world.sb)}:
        able = ", ".join(sorted(c.name for c in placement.eligible(spec, world.sb))) or "none"
        words = f"{request.target} may not be the gateway of UDN {spec.name!r} (physical network "
        yield Problem(
            "target-not-eligible",
            f"{words}{spec.physical_network!r}, allowed list); these may: {able}",
            "target",
        )
    members = {member.chassis for member in world.document.members}
    if len(members) == 1 and request.target not in members and not request.allow_interruption:
        words = (
            f"the gateway has no standby: adding {request.target} interrupts it for about a second; "
            "allow that (allow_interruption), or give the UDN a standby first"
        )
        yield Problem("lone-gateway", words, "allow_interruption", conflict=True)
    owned = [row for row in world.nb.owned if row.udn == spec.name]
    strayed = drift.words(drift.diff(owned, topology.rows(spec, world.document.members)))
    gateway = [line for line in strayed if "Gateway_Chassis" in line or repr(topology.EXTERNAL_PORT) in line]
    port = topology.gateway_names(spec).external_port
    gateway.extend(drift.strangers(world.nb, port, world.document.members))
    if gateway:
        lines = "; ".join(gateway)
        words = f"the gateway's rows were changed by somebody else: {lines}; put the UDN again to repair them"
        yield Problem("gateway-drift", words, conflict=True)


def agents_needed(record: MigrationRecord) -> tuple[str, ...]:
    """The chassis whose agents must answer: the target's, and every leg's source."""
    sources = {Leg.GATEWAY: record.source, Leg.PORT: record.port_source}
    return (record.target, *dict.fromkeys(sources[leg] for leg in legs.forward_legs(record)))


def agent_problems(
    record: MigrationRecord, agents: dict[str, AgentView], grown_at: float = 0.0
) -> tuple[Problem, ...]:
    """What the agents' answers say against it. ``agents`` by chassis, at least :func:`agents_needed`;
    ``grown_at``: when the HA set grew."""
    return tuple(_agent_problems(record, agents, grown_at))


def awaited_bfd(record: MigrationRecord, agents: dict[str, AgentView], grown_at: float) -> str:
    """What preparing will wait for before anything is copied, in words: BFD of an HA set that was made a
    moment ago. Empty when it is up, or when it must not be waited for."""
    target = agents[record.target].readiness
    if target is None or not _needs_bfd(record) or not judge.bfd_problem(target, record.source):
        return ""
    if not judge.bfd_is_coming(target, record.source, grown_at, record.created_at):
        return ""
    state = target.bfd.get(record.source, "off")
    return f"BFD between {record.target} and {record.source} (it is {state}, the HA set was made just now)"


def _needs_bfd(record: MigrationRecord) -> bool:
    """A chassis that is to be put into the set has no BFD with its owner before; it is waited for anyway."""
    members = {member.chassis for member in record.members_before}
    return bool(record.moves_gateway and record.source and record.target in members)


def _agent_problems(
    record: MigrationRecord, agents: dict[str, AgentView], grown_at: float
) -> Iterator[Problem]:
    for chassis in agents_needed(record):
        if agents[chassis].problem:
            words = (
                f"the agent of {chassis} does not answer: {agents[chassis].problem}; start it, then ask again"
            )
            yield Problem(
                "agent-unreachable", words, "target" if chassis == record.target else None, conflict=True
            )
    target = agents[record.target].readiness
    if target is None:
        return
    if record.moves_gateway and target.uplink:
        words = f"the uplink of {record.target} is not usable: {target.uplink}"
        yield Problem("uplink-down", words, "target", conflict=True)
    if _needs_bfd(record) and not awaited_bfd(record, agents, grown_at):
        problem = judge.bfd_problem(target, record.source)
        if problem:
            words = f"{problem} on {record.target}: OVN would not let it own the gateway; mend the tunnel"
            yield Problem("bfd-down", words, "target", conflict=True)
    source = agents[record.source].readiness if record.source in agents else None
    if source is not None and target.entries_max:
        room = target.entries_max - target.entries
        wanted = sum(source.zone_entries.values())
        if wanted > room:
            words = (
                f"{record.target} has room for {room} more conntrack entries (nf_conntrack_max "
                f"{target.entries_max}), {wanted} are to be moved; raise the limit"
            )
            yield Problem("table-full", words, "target", conflict=True)


def plan_words(record: MigrationRecord, awaited: str = "") -> tuple[str, ...]:
    """What the migration would do, step by step. ``awaited``: see :func:`awaited_bfd`."""
    return tuple(_plan_words(record, awaited))


def _plan_words(record: MigrationRecord, awaited: str) -> Iterator[str]:
    if record.moves_gateway:
        yield f"put {record.target} into the gateway's HA set, below {record.source or 'the others'}"
    if rollback.manages_port(record):
        yield f"let {record.target} bind port {record.port!r} beside {record.port_source}, mute until a RARP"
    if awaited:
        yield f"wait for {awaited}; roll back if it does not come up in time"
    for leg in legs.forward_legs(record):
        what = (
            "the gateway's conntrack zones"
            if leg is Leg.GATEWAY
            else f"the conntrack zone of port {record.port!r}"
        )
        source = record.source if leg is Leg.GATEWAY else record.port_source
        yield f"copy {what} from {source} to {record.target} and keep them in step"
    if record.trigger is Trigger.MANUAL:
        yield "wait for the order to switch"
    elif record.port is not None and not record.arrived:
        yield f"wait until port {record.port!r} is activated or bound on {record.target}"
    if record.moves_gateway:
        yield f"make {record.target} the gateway in one transaction and announce its addresses there"
    if legs.has_way_back(record):
        yield f"keep the sessions on both nodes for {record.overlap_s:g} s, then trim the HA set"
    else:
        yield f"wait {record.overlap_s:g} s, then close the record"
