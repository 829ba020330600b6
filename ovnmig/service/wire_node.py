"""Wire models of nodes, events and health."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import ConfigDict, Field

from ovnmig.engine.protocols import Health, JournalEvent, NodeState
from ovnmig.service import examples
from ovnmig.service.fields import AnswerModel


class NodeAnswer(AnswerModel):
    """A chassis of the Southbound database with its agent's word. Agent fields are null while it does not
    answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.NODE]})

    chassis: str
    hostname: str
    encap_ips: list[str]
    physical_networks: list[str]
    gateway_preferred: bool
    gateways: list[str] = Field(description="UDNs whose gateway this chassis owns now")
    agent_up: bool
    agent_problem: str = Field(description="why the agent does not answer; empty when it does")
    agent_version: str | None
    agent_kernel: str | None
    agent_ovs_version: str | None
    agent_entries: int | None = Field(description="conntrack entries on the node, all zones")
    agent_entries_max: int | None
    agent_transfers: int | None
    agent_stream_port: int | None
    agent_problems: list[str] = Field(description="what the agent finds wrong on its node")


class NodeList(AnswerModel):
    """All chassis."""

    nodes: list[NodeAnswer]


class EventAnswer(AnswerModel):
    """One line of history: the ``data`` of a server-sent event. ``seq`` is its id."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.EVENT]})

    seq: int
    at: datetime
    kind: str
    udn: str
    migration: str
    message: str
    details: dict[str, Any]


class LiveAnswer(AnswerModel):
    """The process runs."""

    status: str
    version: str


class ReadyAnswer(AnswerModel):
    """Whether requests can be served: NB and SB are connected and fresh. ``standby`` replicas only serve
    reads."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.READY]})

    ready: bool
    role: str
    problems: list[str]


def node_answer(state: NodeState) -> NodeAnswer:
    """The wire form of a chassis."""
    agent = state.agent
    return NodeAnswer(
        chassis=state.chassis,
        hostname=state.hostname,
        encap_ips=list(state.encap_ips),
        physical_networks=sorted(state.physical_networks),
        gateway_preferred=state.gateway_preferred,
        gateways=list(state.gateways),
        agent_up=agent is not None,
        agent_problem=state.agent_problem,
        agent_version=agent.version if agent else None,
        agent_kernel=agent.kernel if agent else None,
        agent_ovs_version=agent.ovs_version if agent else None,
        agent_entries=agent.entries if agent else None,
        agent_entries_max=agent.entries_max if agent else None,
        agent_transfers=agent.transfers if agent else None,
        agent_stream_port=agent.stream_port if agent else None,
        agent_problems=list(agent.problems) if agent else [],
    )


def event_answer(event: JournalEvent) -> EventAnswer:
    """The wire form of an event."""
    return EventAnswer(
        seq=event.seq,
        at=datetime.fromtimestamp(event.at, UTC),
        kind=event.kind,
        udn=event.udn,
        migration=event.migration,
        message=event.message,
        details=dict(event.details),
    )


def ready_answer(health: Health) -> ReadyAnswer:
    """The wire form of the service's health."""
    return ReadyAnswer(ready=health.ready, role=health.role, problems=list(health.problems))
