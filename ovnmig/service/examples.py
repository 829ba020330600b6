"""Examples of requests and answers: shown in the OpenAPI document and written to ``api/examples``."""

from __future__ import annotations

from typing import Any

Example = dict[str, Any]

UDN_CREATE: Example = {
    "name": "blue",
    "subnets": ["10.1.0.0/24", "fd00:1::/64"],
    "vips": ["172.16.1.100/24", "2001:db8:1::100/64"],
    "physical_network": "public",
    "nexthops": ["172.16.1.1", "2001:db8:1::1"],
    "create_switch": True,
    "policy": "follow",
    "replication": "continuous",
}

UDN_CHANGE: Example = {k: v for k, v in UDN_CREATE.items() if k != "name"} | {
    "vips": ["172.16.1.101/24", "2001:db8:1::100/64"]
}

UDN: Example = {
    "name": "blue",
    "switch": "blue",
    "switch_owned": True,
    "subnets": ["10.1.0.0/24", "fd00:1::/64"],
    "gateway_addresses": ["10.1.0.1/24", "fd00:1::1/64"],
    "vips": ["172.16.1.100/24", "2001:db8:1::100/64"],
    "nexthops": ["172.16.1.1", "2001:db8:1::1"],
    "physical_network": "public",
    "vlan": None,
    "port_range": None,
    "snat_zone": 32768,
    "inner_mac": "0a:58:0a:01:00:01",
    "external_mac": "0a:58:ac:10:01:64",
    "policy": "follow",
    "anchor": None,
    "standby_count": 1,
    "chassis": [],
    "replication": "continuous",
    "standbys": [
        {
            "chassis": "chassis-2",
            "state": "in-step",
            "pending": 0,
            "synced_at": "2026-11-30T12:00:05.250000Z",
            "refused": 0,
            "lost": 0,
            "put_back": 0,
            "reason": "",
        }
    ],
    "epoch": 1,
    "owner": "chassis-1",
    "router": "ovnmig-blue",
    "protected": True,
    "members": [{"chassis": "chassis-1", "priority": 20}, {"chassis": "chassis-2", "priority": 10}],
    "placement": {
        "chassis-1": "active: maps public",
        "chassis-2": "standby: maps public",
        "chassis-3": "not eligible: does not map public",
    },
    "drift": [],
    "migration": None,
    "changed": True,
}

GATEWAY: Example = {k: UDN[k] for k in ("owner", "router", "vips", "protected", "members", "migration")} | {
    "udn": "blue"
}

GATEWAY_MOVE: Example = {"target": "chassis-2", "overlap_s": 60.0}

BFD: Example = {"profile": "fast", "min_rx_ms": 200, "min_tx_ms": 200, "mult": 3}

BFD_CHANGE: Example = {"profile": "fast"}

MIGRATION_CREATE: Example = {
    "udn": "blue",
    "port": "vm1",
    "target": "chassis-2",
    "binding": "ovnmig",
    "trigger": "auto",
    "transfer": "full",
    "overlap_s": 60.0,
}

MIGRATION: Example = {
    "id": "0190f7c2-6c1e-7d4b-9a55-3f0f6f2f7d10",
    "udn": "blue",
    "port": "vm1",
    "source": "chassis-1",
    "port_source": "chassis-1",
    "target": "chassis-2",
    "moves_gateway": True,
    "phase": "ready",
    "waits_for": "port 'vm1' activated or bound on chassis-2",
    "reason": "",
    "trigger": "auto",
    "binding": "ovnmig",
    "transfer": "full",
    "overlap_s": 60.0,
    "created_at": "2026-01-01T12:00:00Z",
    "phase_since": "2026-01-01T12:00:02.500000Z",
    "switched_at": None,
    "ended_at": None,
    "phase_at": {
        "requested": "2026-01-01T12:00:00Z",
        "preparing": "2026-01-01T12:00:00.100000Z",
        "copying": "2026-01-01T12:00:02Z",
        "ready": "2026-01-01T12:00:02.500000Z",
    },
    "phase_s": {"requested": 0.1, "preparing": 1.9, "copying": 0.5},
    "counts": {
        "read": 212,
        "created": 210,
        "identical": 1,
        "replaced": 0,
        "refused": 1,
        "refused_by_reason": {"another session holds the address and port": 1},
        "lost": 0,
        "kinds": {"tcp/4": 200, "tcp/6": 12},
    },
    "unmoved": [
        "another session holds the address and port: tcp 10.1.0.5:40000 -> 192.0.2.50:80 via"
        " 172.16.1.100:1024 ESTABLISHED (held by tcp 10.1.0.6:1111 -> 192.0.2.50:80 via 172.16.1.100:1024"
        " ESTABLISHED)"
    ],
    "nb_transactions": 1,
    "arrived": False,
    "arrived_early": False,
    "cancel_ordered": False,
    "warnings": ["1 entries were refused by the target: see refused_by_reason and unmoved"],
    "from_history": False,
}

DRY_RUN: Example = {
    "possible": False,
    "problems": [
        {
            "code": "agent-unreachable",
            "message": "no agent answers on chassis-2; start 'ovnmig agent' there",
            "field": "target",
        }
    ],
    "plan": [
        "add chassis-2 to the HA set of 'blue'",
        "copy zone snat:ovnmig-blue from chassis-1 to chassis-2",
    ],
    "warnings": [],
}

NODE: Example = {
    "chassis": "chassis-1",
    "hostname": "chassis-1",
    "encap_ips": ["170.168.0.2"],
    "physical_networks": ["public"],
    "gateway_preferred": True,
    "gateways": ["blue"],
    "agent_up": True,
    "agent_problem": "",
    "agent_version": "0.1.0",
    "agent_kernel": "6.12.0",
    "agent_ovs_version": "3.5.0",
    "agent_entries": 1200,
    "agent_entries_max": 262144,
    "agent_transfers": 0,
    "agent_stream_port": 8789,
    "agent_problems": [],
}

EVENT: Example = {
    "seq": 17,
    "at": "2026-01-01T12:00:02.500000Z",
    "kind": "phase",
    "udn": "blue",
    "migration": MIGRATION["id"],
    "message": "copying -> ready",
    "details": {"phase": "ready"},
}

READY: Example = {"ready": True, "role": "leader", "problems": []}

PROBLEM: Example = {
    "type": "urn:ovnmig:problem:refused",
    "title": "Request refused",
    "status": 422,
    "detail": "VIP 172.16.1.255/24 is the broadcast address of its subnet; choose another one",
    "problems": [
        {
            "code": "vip-broadcast",
            "message": "VIP 172.16.1.255/24 is the broadcast address of its subnet; choose another one",
            "field": "vips",
        }
    ],
}
