"""The chassis with their agents' word, and whether the service is fit to serve."""

from __future__ import annotations

import asyncio

from ovnmig.core import topology
from ovnmig.core.views import ChassisView
from ovnmig.engine import store
from ovnmig.engine.perform import AGENT_ERRORS
from ovnmig.engine.protocols import Agents, NodeState
from ovnmig.engine.runner import Outside


async def nodes(outside: Outside, agents: Agents) -> tuple[NodeState, ...]:
    """Every chassis in SB, by name; agents are asked all at once, so that a dead one delays nobody."""
    sb = await outside.southbound.view()
    nb = await outside.northbound.view()
    owners: dict[str, list[str]] = {}
    for stored in store.readable(nb):
        spec = stored.document.spec
        binding = sb.binding(topology.gateway_names(spec).chassis_redirect_port)
        if binding is not None and binding.chassis:
            owners.setdefault(binding.chassis, []).append(spec.name)

    async def state(chassis: ChassisView) -> NodeState:
        agent, problem = None, ""
        try:
            agent = await agents.node(chassis.name)
        except AGENT_ERRORS as error:
            problem = str(error) or type(error).__name__
        return NodeState(
            chassis=chassis.name,
            hostname=chassis.hostname,
            encap_ips=chassis.encap_ips,
            physical_networks=tuple(sorted(chassis.physical_networks)),
            gateway_preferred=chassis.gateway_preferred,
            agent=agent,
            agent_problem=problem,
            gateways=tuple(sorted(owners.get(chassis.name, ()))),
        )

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(state(chassis)) for chassis in sb.chassis]
    return tuple(sorted((task.result() for task in tasks), key=lambda node: node.chassis))
