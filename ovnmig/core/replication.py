"""Continuous replication: which standing transfers and announcements a UDN is to have now, and how each
standby's copy stands.

OVN fails over without asking anybody, and an entry that comes after the first packet comes too late. So every
live member of the HA set holds the owner's entries in its kernel all the time. Who owns the gateway is what
the Southbound database says, never what was last ordered.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from ovnmig.core import placement
from ovnmig.core.document import UdnDocument
from ovnmig.core.legs import router_zones
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.topology import gateway_names
from ovnmig.core.transfer import Peer, TransferOrder, TransferState, TransferStatus
from ovnmig.core.udn import Replication, UdnSpec

BEHIND_AFTER_S = 3.0
"""A target confirms every second. So long without a word, and its copy counts as behind: with a look each
second that makes an alarm within 5 s."""

SETTLED_S = 1.0
"""An owner that is not first in the HA set took over without us. So long it must have been so: after a change
of priorities OVN needs a moment to follow."""


@dataclass(frozen=True, slots=True)
class Order:
    """Something a chassis has, or must no longer have, under an id."""

    chassis: str
    id: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A standing transfer: from the owner to a standby."""

    id: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What must hold. ``end`` and ``disarm`` name what may be left of other roles; unknown ids do no harm.
    ``raise_owner``: the chassis that took over without us and has to be first in the HA set, once it has been
    so for another ``raise_after_s`` seconds."""

    transfers: tuple[Standing, ...] = ()
    arm: tuple[Order, ...] = ()
    end: tuple[Order, ...] = ()
    disarm: tuple[Order, ...] = ()
    raise_owner: str = ""
    raise_after_s: float = 0.0


class CopyState(StrEnum):
    """How a standby's copy stands."""

    IN_STEP = "in-step"
    COPYING = "copying"
    CONNECTING = "connecting"
    BEHIND = "behind"
    """In step by its source's word, but the standby has not confirmed for too long."""
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    """The agent of the owner or of the standby does not answer."""


@dataclass(frozen=True, slots=True)
class Standby:
    """A standby's copy. ``pending``: entries on their way. ``synced_at``: when everything sent before was
    last confirmed (Unix seconds). ``put_back``: copies that had vanished there and were sent again."""

    chassis: str
    state: CopyState
    pending: int = 0
    synced_at: float | None = None
    refused: int = 0
    lost: int = 0
    put_back: int = 0
    reason: str = ""


def mark(udn: str) -> str:
    """The stem of a UDN's standing ids. A hash: names may hold anything, ids stand in URL paths."""
    return hashlib.sha256(udn.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def keep_id(udn: str, target: str) -> str:
    """The id of the standing transfer to ``target``."""
    return f"{mark(udn)}-keep-{target}"


def standby_id(udn: str) -> str:
    """The id of the announcement that is armed on every member."""
    return f"{mark(udn)}-keep"


def owner_id(udn: str) -> str:
    """The id of the announcement that the owner alone has. Its order carries the epoch of the take-over, by
    which the owner's agent knows a former owner's stream."""
    return f"{mark(udn)}-own"


def wanted(document: UdnDocument, owner: str, owned_s: float, running: MigrationRecord | None) -> Wanted:
    """What must hold while ``owner`` has the gateway's port (for ``owned_s`` seconds without a change of the
    record); while nobody has it all stays as it is.

    A running migration of the gateway brings entries to its target itself, and in the overlap back to its
    source: there a standing transfer would write the same entries a second time, so those two do without.
    """
    spec = document.spec
    members = tuple(member.chassis for member in placement.by_rank(document.members))
    if spec.replication is Replication.NONE:
        return nothing(document)
    if not owner:
        return Wanted()
    busy = {running.source, running.target} if running is not None and running.moves_gateway else set()
    targets = tuple(name for name in members if name != owner and name not in busy)
    standing = tuple(Standing(keep_id(spec.name, name), owner, name) for name in targets)
    everyone = tuple(dict.fromkeys((*members, owner, *sorted(busy - {""}))))
    kept = {(one.source, one.id) for one in standing}
    end = tuple(
        Order(source, keep_id(spec.name, target))
        for source in everyone
        for target in everyone
        if source != target and (source, keep_id(spec.name, target)) not in kept
    )
    took_over = running is None and owner in members and members[0] != owner
    return Wanted(
        transfers=standing,
        arm=(*(Order(name, standby_id(spec.name)) for name in members), Order(owner, owner_id(spec.name))),
        end=end,
        disarm=tuple(Order(name, owner_id(spec.name)) for name in members if name != owner),
        raise_owner=owner if took_over else "",
        raise_after_s=max(0.0, SETTLED_S - owned_s) if took_over else 0.0,
    )


def nothing(document: UdnDocument) -> Wanted:
    """The end of all of it: replication was turned off, or the UDN goes."""
    udn = document.spec.name
    members = tuple(member.chassis for member in placement.by_rank(document.members))
    return Wanted(
        end=tuple(Order(s, keep_id(udn, t)) for s in members for t in members if s != t),
        disarm=tuple(Order(name, ident) for name in members for ident in (standby_id(udn), owner_id(udn))),
    )


def transfer_order(one: Standing, spec: UdnSpec, epoch: int, datapath: str, peer: Peer) -> TransferOrder:
    """The order to the owner's agent. ``datapath``: the router's, for zone keys of OVN before 23.06.1."""
    zones = router_zones(gateway_names(spec).router, datapath)
    return TransferOrder(one.id, spec.name, epoch, peer, zones, keep=True)


def judge(chassis: str, status: TransferStatus | None, problem: str, now: float) -> Standby:
    """How a standby's copy stands. ``problem``: why an agent could not be asked or told, in words."""
    if status is None:
        state = CopyState.UNREACHABLE if problem else CopyState.CONNECTING
        return Standby(chassis, state, reason=problem)
    state, reason = _state(status)
    if state is CopyState.IN_STEP and problem:
        state, reason = CopyState.UNREACHABLE, problem
    return Standby(
        chassis=chassis,
        state=state,
        pending=status.pending,
        synced_at=None if status.synced_s is None else now - status.synced_s,
        refused=status.counts.refused_total,
        lost=status.counts.lost,
        put_back=status.put_back,
        reason=reason or problem,
    )


def _state(status: TransferStatus) -> tuple[CopyState, str]:
    if status.state is TransferState.FAILED:
        return CopyState.FAILED, status.reason or "the transfer failed without a reason"
    if status.state is TransferState.CONNECTING:
        return CopyState.CONNECTING, status.reason
    if status.state is TransferState.COPYING:
        return CopyState.COPYING, status.reason
    if status.synced_s is None or status.synced_s > BEHIND_AFTER_S:
        return CopyState.BEHIND, "the standby has confirmed nothing for some seconds"
    return CopyState.IN_STEP, ""


def alarm(standby: Standby) -> str:
    """What a person should know about a copy, in words; empty when it is in step."""
    if standby.state is CopyState.IN_STEP:
        return ""
    words = f"the copy on {standby.chassis} is {standby.state.value}"
    return f"{words}: {standby.reason}" if standby.reason else words
