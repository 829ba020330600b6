"""What is wrong with a cluster, in words, from what the service answers. Pure: documents in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ovnmig.cli.client import Document

FULL_SHARE = 0.8
"""Share of conntrack's table above which a transfer may not find room."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a person should know. ``problem`` False: worth knowing, nothing to repair."""

    code: str
    what: str
    advice: str = ""
    problem: bool = True

    def document(self) -> Document:
        """For ``--json``."""
        return asdict(self)


def diagnose(
    *, ready: Document, udns: list[Document], nodes: list[Document], migrations: list[Document]
) -> list[Finding]:
    """All findings, the service first, then nodes, UDNs and migrations."""
    found = list(_service(ready))
    if ready["ready"]:
        found += [*_nodes(nodes), *_udns(udns, nodes), *_migrations(migrations)]
    return found


def _service(ready: Document) -> Iterator[Finding]:
    for problem in ready["problems"]:
        yield Finding("service", f"the service is not well: {problem}", "see its log and OVN's databases")
    if not ready["ready"] and not ready["problems"]:
        yield Finding("service", "the service is not ready and does not say why", "see its log")
    if ready["role"] != "leader":
        yield Finding(
            "standby", f"the service that answers is a {ready['role']}: it only serves reads", problem=False
        )


def _nodes(nodes: list[Document]) -> Iterator[Finding]:
    if not nodes:
        yield Finding(
            "no-chassis",
            "no chassis is registered in the Southbound database",
            "start ovn-controller on the nodes",
        )
    versions: dict[str, list[str]] = {}
    for node in nodes:
        name = node["chassis"]
        if not node["agent_up"]:
            yield Finding(
                "no-agent",
                f"chassis {name} has no agent: {node['agent_problem']}",
                f"run 'ovnmig agent' on {name}; nothing can migrate from or to it",
            )
            continue
        versions.setdefault(str(node["agent_version"]), []).append(name)
        for problem in node["agent_problems"]:
            yield Finding("agent-problem", f"chassis {name}: {problem}")
        entries, room = node["agent_entries"] or 0, node["agent_entries_max"] or 0
        if room and entries > FULL_SHARE * room:
            yield Finding(
                "table-full",
                f"chassis {name}: conntrack holds {entries} of {room} entries",
                "raise net.netfilter.nf_conntrack_max there, or transfers will be refused",
            )
    if len(versions) > 1:
        words = "; ".join(f"{version} on {', '.join(names)}" for version, names in sorted(versions.items()))
        yield Finding("versions", f"agents of different versions: {words}", "upgrade them all", problem=False)


def _udns(udns: list[Document], nodes: list[Document]) -> Iterator[Finding]:
    for udn in udns:
        name, network = udn["name"], udn["physical_network"]
        mapped = [n["chassis"] for n in nodes if network in n["physical_networks"]]
        if not mapped:
            yield Finding(
                "no-uplink",
                f"UDN {name!r}: no chassis maps physical network {network!r}",
                "set external_ids:ovn-bridge-mappings in the Open_vSwitch table of the gateways",
            )
        elif not udn["owner"]:
            yield Finding(
                "unclaimed",
                f"UDN {name!r}: no chassis has claimed the gateway",
                "see ovn-controller's log on " + ", ".join(m["chassis"] for m in udn["members"]),
            )
        missing = [m["chassis"] for m in udn["members"] if m["chassis"] not in mapped]
        if mapped and missing:
            yield Finding(
                "member-uplink",
                f"UDN {name!r}: {', '.join(missing)} of its HA set is gone or does not map {network!r}",
                "give it the bridge mapping, or let ovnmig choose again with 'ovnmig udn set'",
            )
        if not udn["protected"]:
            yield _lone(udn, mapped)
        for difference in udn["drift"]:
            yield Finding(
                "drift",
                f"UDN {name!r}: the rows differ from what is wanted: {difference}",
                "repeat the wanted state with 'ovnmig udn set'",
            )


def _lone(udn: Document, mapped: list[str]) -> Finding:
    members = [m["chassis"] for m in udn["members"]]
    others = [c for c in mapped if c not in members]
    advice = (
        f"{', '.join(others)} could stand by; growing from one to two makes OVN drop the port for a second"
        if others
        else f"map {udn['physical_network']!r} on a second chassis"
    )
    only = ", ".join(members) or "nobody"
    words = f"UDN {udn['name']!r}: the gateway is unprotected: {only} is its only chassis"
    return Finding("unprotected", words, advice)


def _migrations(migrations: list[Document]) -> Iterator[Finding]:
    latest: dict[str, Document] = {}
    for migration in migrations:
        there = latest.get(migration["udn"])
        if there is None or migration["created_at"] > there["created_at"]:
            latest[migration["udn"]] = migration
    for migration in latest.values():
        if migration["phase"] == "failed":
            yield Finding(
                "migration-failed",
                f"migration {migration['id']} of UDN {migration['udn']!r} failed: {migration['reason']}",
                "it needs a person: see 'ovnmig migrate show' and 'ovnmig watch --after 0 --migration'",
            )
        for warning in migration["warnings"]:
            yield Finding(
                "migration-warning", f"last migration of UDN {migration['udn']!r}: {warning}", problem=False
            )
