"""Holds back new TCP connections through a gateway while it is handed over.

A connection that opens in the milliseconds between the last difference and the claim could send its second
packet to the new owner before its entry is there: it would be translated to another port, and the server
would answer with a reset. So from the final delta on the provider bridge drops packets that open one. The
client sends another a second later, as TCP does, and that one meets the new owner.

The flows have a cookie of ours and a hard timeout: nothing stays if agent and controller die. Nobody else
writes flows to a provider bridge; ovn-controller only adds its patch ports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ovnmig.agent import openflow, ovs, packets, switch
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.openflow import ETH_DST, ETH_SRC, FlowMod, OpenFlowError
from ovnmig.core.transfer import Gate

_log = logging.getLogger(__name__)
COOKIE: Final = int.from_bytes(b"ovnmig\x00\x01", "big")
HOLD_S: Final = 3
"""The longest time that no connection is opened: a commit and a claim take tenths of it."""
_PRIORITY: Final = 65000


def closed(mac: bytes) -> list[FlowMod]:
    """The flows of a closed gate: both directions, both families."""
    return [
        FlowMod(COOKIE, openflow.tcp_openings(field, mac, ipv6), _PRIORITY, HOLD_S)
        for field in (ETH_SRC, ETH_DST)
        for ipv6 in (False, True)
    ]


def opened(mac: bytes) -> list[FlowMod]:
    """What takes them away."""
    return [FlowMod(flow.cookie, flow.match, delete=True) for flow in closed(mac)]


class Gates:
    """The gates of this node. What cannot be done is told in the log and never stops a hand-over."""

    def __init__(self, chassis: str, rundir: Path, view: Callable[[], LocalView]) -> None:
        self._chassis = chassis
        self._rundir = rundir
        self._view = view

    async def close(self, gate: Gate) -> None:
        """No TCP connection is opened through the gateway for HOLD_S, or until :meth:`open`."""
        await self._change("closed", gate, closed(packets.parse_mac(gate.mac)))

    async def open(self, gate: Gate) -> None:
        """As before. Open already is fine."""
        await self._change("opened", gate, opened(packets.parse_mac(gate.mac)))

    async def _change(self, what: str, gate: Gate, flows: Iterable[FlowMod]) -> None:
        try:
            bridge, _ = ovs.patch_port(self._view(), self._chassis, gate.localnet_port)
            socket = ovs.management_socket(self._rundir, bridge)
            async with switch.connect(socket) as out, asyncio.TaskGroup() as group:
                reading = group.create_task(out.run())
                await out.change(flows)
                reading.cancel()
        except* (OpenFlowError, LookupError) as several:
            self._complain(what, gate, several.exceptions[0])

    def _complain(self, what: str, gate: Gate, error: BaseException) -> None:
        _log.warning("the gate of localnet port %r could not be %s: %s", gate.localnet_port, what, error)
