"""Making records of young sessions fit for a take-over.

OVS commits a session with its first packet and asks the kernel for no event about its state, so a record
made from the NEW event says SYN_SENT and unreplied for ever. Such an entry does not carry an established
session: a request/response or a download dies on it. A standby that has to take over with what it heard
therefore assumes the handshake went well, with a timeout short enough that a wrong guess does no harm.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ovnmig.conntrack.messages import IPPROTO_TCP, Status, TcpState
from ovnmig.conntrack.records import Batch, Group

PROMOTED_TIMEOUT_S: Final = 300
"""The first packet sets the kernel's own timeout for the state."""
_SURE = int(Status.SEEN_REPLY | Status.ASSURED).to_bytes(4, "big")
_OPENING = (TcpState.NONE, TcpState.SYN_SENT, TcpState.SYN_RECV, TcpState.SYN_SENT2)


def promote(batch: Batch) -> Batch:
    """The same records with opening TCP sessions made ESTABLISHED, replied and assured.

    Sessions in any other state and other protocols are returned as they are. The timeout of a promoted
    one is at most PROMOTED_TIMEOUT_S.
    """
    return Batch(tuple(_promote(group) for group in batch))


def at_least(batch: Batch, timeout_s: int) -> Batch:
    """The same records, none with less than ``timeout_s`` left: for copies whose end is told, not awaited."""
    return Batch(tuple(_at_least(group, timeout_s) for group in batch))


def _at_least(group: Group, timeout_s: int) -> Group:
    left = group.timeouts_s()
    if not len(group) or int(left.min()) >= timeout_s:
        return group
    values = group.values.copy()
    values[:, -1] = np.maximum(left, timeout_s).astype(">u4").view(np.uint32)
    return Group(group.shape, values, group.order, group.ids)


def _promote(group: Group) -> Group:
    if group.shape.spec.flow.proto != IPPROTO_TCP:
        return group
    state = group.shape.at("state")
    opening = np.isin(group.values[:, state].copy().view(np.uint8)[::4], _OPENING)
    if not opening.any():
        return group
    values = group.values.copy()
    values[opening, state] = np.frombuffer(bytes((TcpState.ESTABLISHED, 0, 0, 0)), dtype=np.uint32)[0]
    values[opening, group.shape.at("status")] |= np.frombuffer(_SURE, dtype=np.uint32)[0]
    capped = np.minimum(group.timeouts_s(), PROMOTED_TIMEOUT_S).astype(">u4").view(np.uint32)
    values[opening, -1] = capped[opening]
    return Group(group.shape, values, group.order, group.ids)
