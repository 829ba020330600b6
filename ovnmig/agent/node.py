"""Questions about the node that need more than the local database: kernel, table, entries of a zone."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence

import ovnmig
from ovnmig.agent import ovs, zones
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import TableStats, dump_zones, table_stats
from ovnmig.core.transfer import NodeStatus, Readiness, ReadinessOrder

_ALMOST_FULL = 0.9


class Node:
    """This node as it is at the moment of asking."""

    def __init__(self, chassis: str, view: Callable[[], LocalView], worker: Worker) -> None:
        self._chassis = chassis
        self._view = view
        self._worker = worker

    async def status(self, transfers: int, stream_port: int, alarms: Sequence[str] = ()) -> NodeStatus:
        """What GET /v1/node answers. ``alarms`` are of the agent's streams."""
        view, table = self._view(), await self._worker.run(table_stats)
        return NodeStatus(
            chassis=self._chassis,
            version=ovnmig.__version__,
            kernel=platform.release(),
            ovs_version=view.ovs_version,
            entries=table.count,
            entries_max=table.max,
            transfers=transfers,
            stream_port=stream_port,
            problems=(*self._problems(view, table), *alarms),
        )

    async def readiness(self, order: ReadinessOrder) -> Readiness:
        """What POST /v1/readiness answers: could traffic of these zones arrive here now?"""
        view, table = self._view(), await self._worker.run(table_stats)
        numbers = zones.present(view, self._chassis, order.zones) if view.connected else {}
        network = order.physical_network
        return Readiness(
            zones=numbers,
            bfd={peer: ovs.tunnel_bfd(view, self._chassis, peer) for peer in order.peers},
            bfd_flaps={peer: ovs.tunnel_flaps(view, self._chassis, peer) for peer in order.peers},
            uplink=ovs.uplink_problem(view, self._chassis, network) if network else "",
            entries=table.count,
            entries_max=table.max,
            zone_entries=await self._worker.run(self._count, numbers) if numbers else {},
        )

    def _count(self, numbers: Mapping[str, int]) -> dict[str, int]:
        counts = dict.fromkeys(numbers.values(), 0)
        for number, batch in dump_zones(self._worker.socket, counts, self._worker.transformer):
            counts[number] += len(batch)
        return {key: counts[number] for key, number in numbers.items()}

    def _problems(self, view: LocalView, table: TableStats) -> list[str]:
        out = []
        if not view.connected:
            out.append("the local Open vSwitch database is not connected: what it said may be old")
        if ovs.system_id(view) not in ("", self._chassis):
            out.append(f"the chassis is now called {ovs.system_id(view)!r}: restart the agent")
        bridge = ovs.integration_bridge(view, self._chassis)
        if bridge not in view.bridges:
            out.append(f"there is no bridge {bridge!r}: is ovn-controller running?")
        out += [
            f"BFD on the tunnel to chassis {peer!r} is {state}: is that node alive, and the underlay?"
            for peer, state in ovs.dead_tunnels(view, self._chassis).items()
        ]
        if table.events != 1:
            out.append("nf_conntrack_events is not 1: entries may come and go unseen")
        if table.count > _ALMOST_FULL * table.max:
            out.append(
                f"the connection table holds {table.count} of {table.max} entries: raise nf_conntrack_max"
            )
        return out
