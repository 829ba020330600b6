"""Which Northbound columns ovnmig writes, and which keys of map columns: everything else in a row is somebody
else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """One column ovnmig sets. ``keys`` lists our keys of a map column (``None``: not a map). ``since``: first
    OVN release."""

    since: str = "20.03"
    keys: Mapping[str, str] | None = None
    """Key -> first OVN release that knows it."""


WRITTEN: Mapping[str, Mapping[str, ColumnUse]] = {
    "Logical_Router": {
        "name": ColumnUse(),
        "options": ColumnUse(keys={"snat-ct-zone": "20.12"}),
    },
    "Logical_Router_Port": {
        "name": ColumnUse(),
        "mac": ColumnUse(),
        "networks": ColumnUse(),
        "ipv6_ra_configs": ColumnUse(keys={"address_mode": "20.03", "send_periodic": "20.03"}),
    },
    "Logical_Switch": {"name": ColumnUse()},
    "Logical_Switch_Port": {
        "name": ColumnUse(),
        "type": ColumnUse(),
        "addresses": ColumnUse(),
        "options": ColumnUse(
            keys={"router-port": "20.03", "network_name": "20.03", "nat-addresses": "20.03"},
        ),
        "tag": ColumnUse(),
    },
    "Logical_Router_Static_Route": {
        "ip_prefix": ColumnUse(),
        "nexthop": ColumnUse(),
        "output_port": ColumnUse(),
    },
    "NAT": {
        "type": ColumnUse(),
        "external_ip": ColumnUse(),
        "logical_ip": ColumnUse(),
        "external_port_range": ColumnUse(since="20.06"),
    },
    "Gateway_Chassis": {
        "name": ColumnUse(),
        "chassis_name": ColumnUse(),
        "priority": ColumnUse(),
    },
}
"""Columns of rows that are ours. References between them and ``external_ids`` come on top, see
:data:`REFERENCES`."""

REFERENCES: Mapping[str, Mapping[str, str]] = {
    "Logical_Router": {
        "ports": "Logical_Router_Port",
        "static_routes": "Logical_Router_Static_Route",
        "nat": "NAT",
    },
    "Logical_Switch": {"ports": "Logical_Switch_Port"},
    "Logical_Router_Port": {"gateway_chassis": "Gateway_Chassis"},
}
"""Parent table -> column -> table of the rows it keeps alive. OVSDB drops a non-root row that nothing
references."""

ROOT_TABLES = frozenset({"Logical_Router", "Logical_Switch"})
"""Tables whose rows live without a reference, and must be deleted by name."""


def our_keys(table: str, column: str) -> Mapping[str, str]:
    """Keys of a map column that ovnmig sets; empty for a column that is not a map of ours."""
    use = WRITTEN.get(table, {}).get(column)
    return (use.keys or {}) if use else {}
