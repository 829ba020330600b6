"""The sessions that are measured, and the zones they are in on either side."""

from __future__ import annotations

import numpy as np

from ovnmig.conntrack import Batch, Group
from ovnmig.conntrack.messages import IPPROTO_TCP, Status
from ovnmig.conntrack.shape import shape_of
from ovnmig.conntrack.spec import L4, Flow, Spec

ZONE_A, ZONE_B = 7, 4099


def sessions(count: int) -> Batch:
    """Established TCP sessions of many VMs to many servers behind one address and translated ports."""
    shape = shape_of(Spec(2, Flow(IPPROTO_TCP, L4.PORTS), Status.SRC_NAT, info=True))
    number = np.arange(count)

    def wide(value: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(value.astype(">u4")).view(np.uint32)

    values = np.zeros((count, shape.width), dtype=np.uint32)
    port = number % 50000
    values[:, shape.at("orig_src")] = wide(0x0A010000 + number % 60000)
    values[:, shape.at("orig_dst")] = wide(0xAC100000 + number // 50000)
    values[:, shape.at("orig_sport")] = wide((10000 + port) << 16)
    values[:, shape.at("orig_dport")] = wide(np.full(count, 443 << 16))
    values[:, shape.at("nat_src")] = wide(np.full(count, 0xAC10FF64))
    values[:, shape.at("nat_src_port")] = wide((1024 + port) << 16)
    values[:, shape.at("status")] = wide(np.full(count, int(Status.SEEN_REPLY | Status.ASSURED)))
    values[:, shape.at("state")] = wide(np.full(count, 3 << 24))
    for name in ("wscale_orig", "wscale_reply"):
        values[:, shape.at(name)] = wide(np.full(count, 7 << 24))
    for name in ("flags_orig", "flags_reply"):
        values[:, shape.at(name)] = wide(np.full(count, 3 << 24))
    values[:, shape.at("timeout")] = wide(np.full(count, 80000))
    return Batch((Group(shape, (values & shape.keep) | shape.force),))
