"""Southbound rows as the core sees them. Everything here runs under the copy's lock and only reads."""

from __future__ import annotations

from ovs.db.idl import Row

from ovnmig.core import usage
from ovnmig.core.views import BindingView, ChassisView, SbView
from ovnmig.drivers.ovsdb import LiveIdl

COLUMNS = {table: tuple(columns) for table, columns in usage.READ_SOUTHBOUND.items()}
"""Table -> columns the copy follows."""


def view(live: LiveIdl) -> SbView:
    """The whole picture."""
    nb_cfg = {row.name: int(row.nb_cfg) for row in live.tables["Chassis_Private"].rows.values()}
    datapaths = (live.cached(row, _datapath) for row in live.tables["Datapath_Binding"].rows.values())
    return SbView(
        chassis=tuple(_chassis(row, nb_cfg) for row in live.tables["Chassis"].rows.values()),
        bindings=tuple(live.cached(row, _binding) for row in live.tables["Port_Binding"].rows.values()),
        datapaths=dict(found for found in datapaths if found is not None),
    )


def _chassis(row: Row, nb_cfg: dict[str, int]) -> ChassisView:
    # Not cached: the counter is in another row.
    return ChassisView(
        name=row.name,
        hostname=row.hostname,
        encap_ips=tuple(sorted({encap.ip for encap in row.encaps})),
        physical_networks=frozenset(_networks(_setting(row, "ovn-bridge-mappings"))),
        gateway_preferred="enable-chassis-as-gw" in _setting(row, "ovn-cms-options").split(","),
        nb_cfg=nb_cfg.get(row.name, 0),
    )


def _setting(row: Row, key: str) -> str:
    """A chassis' setting: OVN 20.09 and later publish it in other_config, older ones (and some later ones
    too) in external_ids."""
    settings = row.other_config if "other_config" in row._table.columns else {}
    found: str = settings.get(key) or row.external_ids.get(key, "")
    return found


def _networks(mappings: str) -> tuple[str, ...]:
    """Physical networks of ``net1:br-a,net2:br-b``."""
    pairs = (pair.strip().rpartition(":") for pair in mappings.split(","))
    return tuple(network for network, _, bridge in pairs if network and bridge)


def _binding(row: Row) -> BindingView:
    activated = row.options.get("additional-chassis-activated", "")
    columns = row._table.columns
    return BindingView(
        logical_port=row.logical_port,
        type=row.type,
        chassis=next((chassis.name for chassis in row.chassis), ""),
        additional_chassis=tuple(
            sorted(chassis.name for chassis in row.additional_chassis)
            if "additional_chassis" in columns
            else ()
        ),
        activated=tuple(name for name in activated.split(",") if name),
        up=any(row.up),
        datapath=str(row.datapath.uuid) if row.datapath else "",
    )


def _datapath(row: Row) -> tuple[str, str] | None:
    name = row.external_ids.get("name")
    return None if name is None else (name, str(row.uuid))
