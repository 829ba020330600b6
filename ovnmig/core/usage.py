"""Which tables, columns, map keys and options of OVN's databases ovnmig uses, and since when OVN has them.

Columns and keys that are not listed are never written, and where a row is not ours nothing is written but the
listed options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ovnmig.core import bfd

OLDEST = "23.03"
"""The oldest OVN release ovnmig is tested on; ``since`` of what that release has is this, unless known
better."""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """One column. ``keys``: our keys of a map column and the release that brought each."""

    since: str = OLDEST
    keys: Mapping[str, str] = field(default_factory=dict)
    required: bool = True
    """False: works without it, in a schema that lacks it."""


Columns = Mapping[str, ColumnUse]
_HERE = ColumnUse()

WRITTEN: Mapping[str, Columns] = {
    "Logical_Router": {
        "name": _HERE,
        "options": ColumnUse(keys={"snat-ct-zone": "20.12"}),
    },
    "Logical_Router_Port": {
        "name": _HERE,
        "mac": _HERE,
        "networks": _HERE,
        "ipv6_ra_configs": ColumnUse(keys={"address_mode": OLDEST, "send_periodic": OLDEST}, required=False),
    },
    "Logical_Switch": {"name": _HERE},
    "Logical_Switch_Port": {
        "name": _HERE,
        "type": _HERE,
        "addresses": _HERE,
        "options": ColumnUse(keys={"router-port": OLDEST, "network_name": OLDEST, "nat-addresses": OLDEST}),
        "tag": _HERE,
    },
    "Logical_Router_Static_Route": {"ip_prefix": _HERE, "nexthop": _HERE, "output_port": _HERE},
    "NAT": {
        "type": _HERE,
        "external_ip": _HERE,
        "logical_ip": _HERE,
        "external_port_range": ColumnUse(required=False),
    },
    "Gateway_Chassis": {"name": _HERE, "chassis_name": _HERE, "priority": _HERE},
}
"""Northbound columns of rows that are ours. References between them and ``external_ids`` come on top."""

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

RECORD_TABLE = "Address_Set"
"""Table of the record row: a change of its external_ids makes northd compute nothing, in any release."""

PORT_OPTIONS: Mapping[str, str] = {"requested-chassis": "22.06", "activation-strategy": "22.06"}
"""The only things written on a row that is not ours: these options of a VM's port, when ovnmig manages its
binding. A list of chassis in the first, and the second with ``rarp``, came with 22.06; other strategies with
25.09."""

READ_NORTHBOUND: Mapping[str, Columns] = {
    RECORD_TABLE: {"name": _HERE, "external_ids": _HERE},
    "HA_Chassis_Group": {"name": _HERE},
    "Load_Balancer": {"vips": _HERE},
    "Logical_Router_Port": {"ha_chassis_group": _HERE},
    "NB_Global": {"nb_cfg": _HERE, "options": ColumnUse(keys=dict.fromkeys(bfd.KEYS, OLDEST))},
}
"""Read beside the columns that are written. The record row's two columns, ``nb_cfg`` and the listed
options of NB_Global are written too."""

READ_SOUTHBOUND: Mapping[str, Columns] = {
    "Chassis": {
        "name": _HERE,
        "hostname": _HERE,
        "encaps": _HERE,
        "external_ids": ColumnUse(keys={"ovn-bridge-mappings": OLDEST, "ovn-cms-options": OLDEST}),
        "other_config": ColumnUse(
            keys={"ovn-bridge-mappings": OLDEST, "ovn-cms-options": OLDEST}, required=False
        ),
    },
    "Encap": {"ip": _HERE},
    "Chassis_Private": {"name": _HERE, "nb_cfg": _HERE},
    "Port_Binding": {
        "logical_port": _HERE,
        "type": _HERE,
        "datapath": _HERE,
        "chassis": _HERE,
        "additional_chassis": ColumnUse("22.06", required=False),
        "options": ColumnUse(keys={"additional-chassis-activated": "22.06"}),
        "up": _HERE,
    },
    "Datapath_Binding": {"external_ids": ColumnUse(keys={"name": OLDEST})},
}
"""Nothing is ever written to the Southbound database."""

READ_LOCAL: Mapping[str, Columns] = {
    "Open_vSwitch": {
        "external_ids": ColumnUse(keys={"system-id": OLDEST, "ovn-bridge-mappings": OLDEST}),
        "ovs_version": _HERE,
        "bridges": _HERE,
    },
    "Bridge": {"name": _HERE, "external_ids": _HERE, "ports": _HERE},
    "Port": {"name": _HERE, "external_ids": _HERE, "interfaces": _HERE},
    "Interface": {
        "name": _HERE,
        "type": _HERE,
        "ofport": _HERE,
        "admin_state": _HERE,
        "link_state": _HERE,
        "bfd_status": _HERE,
    },
}
"""What an agent reads in its node's Open_vSwitch database. Keys of zones in ``Bridge`` are
``ct-zone-<name>``."""


def our_keys(table: str, column: str) -> Mapping[str, str]:
    """Keys of a map column that ovnmig sets in its own rows; empty for a column that is not a map of ours."""
    use = WRITTEN.get(table, {}).get(column)
    return use.keys if use else {}


def northbound_columns() -> dict[str, tuple[str, ...]]:
    """Every Northbound table and column that is followed."""
    followed = {
        table: (*columns, *REFERENCES.get(table, ()), "external_ids") for table, columns in WRITTEN.items()
    }
    for table, more in READ_NORTHBOUND.items():
        followed[table] = (*followed.get(table, ()), *more)
    return followed


def describe() -> dict[str, object]:
    """The content of ``schemas/ovn-usage.json``."""
    ours = {
        table: {
            **_described(columns),
            **{column: {"since": OLDEST, "required": True} for column in REFERENCES.get(table, ())},
            "external_ids": {"since": OLDEST, "required": True},
        }
        for table, columns in WRITTEN.items()
    }
    return {
        "oldest": OLDEST,
        "OVN_Northbound": {
            "written": ours,
            "options_of_vm_ports": dict(PORT_OPTIONS),
            "record": RECORD_TABLE,
            "read": {table: _described(columns) for table, columns in READ_NORTHBOUND.items()},
        },
        "OVN_Southbound": {
            "read": {table: _described(columns) for table, columns in READ_SOUTHBOUND.items()}
        },
        "Open_vSwitch": {"read": {table: _described(columns) for table, columns in READ_LOCAL.items()}},
    }


def _described(columns: Columns) -> dict[str, object]:
    return {
        column: {
            "since": use.since,
            "required": use.required,
            **({"keys": dict(use.keys)} if use.keys else {}),
        }
        for column, use in columns.items()
    }
