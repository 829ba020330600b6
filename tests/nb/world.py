"""A Northbound server with somebody else's switch and router in it, and the changes ovnmig makes there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from ovnmig.core import topology
from ovnmig.core.document import UdnDocument, encode
from ovnmig.core.rows import Change
from ovnmig.core.udn import Member, UdnRequest, UdnSpec
from ovnmig.core.validate import resolve
from ovnmig.core.views import NbView, SbView
from ovnmig.drivers.ovn_nb import OvnNorthbound
from tests.core.worlds import REQUEST, chassis
from tests.nb.server import DatabaseServer, northbound

PAIR = (Member(20, "b"), Member(10, "a"))
SB = SbView(chassis=(chassis("a", "phys"), chassis("b", "phys"), chassis("c", "phys")))


def insert(table: str, label: str | None = None, /, **row: Any) -> dict[str, Any]:
    """An insert operation; ``label`` is the row's name inside the transaction."""
    operation: dict[str, Any] = {"op": "insert", "table": table, "row": row}
    return operation if label is None else {**operation, "uuid-name": label}


def update(table: str, column: str, value: str, /, **row: Any) -> dict[str, Any]:
    """An update of the rows whose ``column`` is ``value``."""
    return {"op": "update", "table": table, "where": [[column, "==", value]], "row": row}


def reference(name: str) -> list[Any]:
    return ["named-uuid", name]


def populated(**options: Any) -> DatabaseServer:
    """A server with a switch ``net`` (ports vm1, vm2) and somebody else's router with our kind of name."""
    server = northbound(**options)
    server.transact(
        insert("Logical_Switch", name="net", ports=["set", [reference("p1"), reference("p2")]]),
        insert("Logical_Switch_Port", "p1", name="vm1", options=["map", [["mcast_flood", "true"]]]),
        insert("Logical_Switch_Port", "p2", name="vm2"),
        insert(
            "Logical_Router",
            name="ovnmig-other",
            ports=reference("lrp"),
            nat=reference("nat"),
            external_ids=["map", [["ovnmig-udn", "blue"], ["theirs", "yes"]]],
        ),
        insert(
            "Logical_Router_Port", "lrp", name="other-port", mac="00:00:00:00:00:09", networks="192.0.2.9/24"
        ),
        insert("NAT", "nat", type="snat", external_ip="192.0.2.9", logical_ip="10.9.0.0/24"),
        insert("Address_Set", name="theirs"),
    )
    return server


@asynccontextmanager
async def house(*owners: str, **options: Any) -> AsyncIterator[tuple[DatabaseServer, list[OvnNorthbound]]]:
    """A populated server and a driver for each owner (``house`` when none is given)."""
    server = populated(**options)
    drivers = [OvnNorthbound(server.remote, owner=owner, timeout_s=5) for owner in owners or ("house",)]
    try:
        yield server, drivers
    finally:
        try:
            for driver in drivers:
                await driver.close()
        finally:
            server.remove()


def made_spec(nb: NbView, request: UdnRequest = REQUEST, owner: str = "house") -> UdnSpec:
    return resolve(request, nb, SB, owner=owner)


def change(
    spec: UdnSpec, epoch: int | None = None, members: tuple[Member, ...] = PAIR, **others: Any
) -> Change:
    """Create the UDN, or change it at ``epoch``."""
    return replace(
        Change(
            udn=spec.name,
            expected_epoch=epoch,
            document=encode(UdnDocument(spec, members)),
            rows=topology.rows(spec, members),
        ),
        **others,
    )


def deletion(udn: str, epoch: int) -> Change:
    return Change(udn=udn, expected_epoch=epoch, document=None, rows=())


def find(server: DatabaseServer, table: str, **columns: Any) -> dict[str, Any]:
    """The one row with these values."""
    rows = [
        row for row in server.rows(table) if all(row[column] == value for column, value in columns.items())
    ]
    assert len(rows) == 1, f"{len(rows)} rows of {table} with {columns}"
    return rows[0]
