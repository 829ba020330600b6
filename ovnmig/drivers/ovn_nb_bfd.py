"""The BFD intervals in NB_Global: read, and set in one transaction; no other key is touched."""

from __future__ import annotations

from collections.abc import Mapping

from ovs.db.idl import Transaction
from ovsdbapp.backend.ovs_idl import Backend

from ovnmig.core import bfd
from ovnmig.drivers.ovsdb import Command, LiveIdl
from ovnmig.engine.protocols import DatabaseUnavailable


def options(live: LiveIdl) -> dict[str, str]:
    """The intervals as they are; none in a database nobody has initialised."""
    for row in live.tables["NB_Global"].rows.values():
        return bfd.ours(row.options)
    return {}


class SetBfd(Command):
    """Set the intervals to exactly ``wanted``; keys that are not there are removed. ``result``: whether
    anything was to be written."""

    def __init__(self, backend: Backend, wanted: Mapping[str, str]) -> None:
        super().__init__(backend)
        self._wanted = dict(wanted)

    def run_idl(self, txn: Transaction) -> None:
        """Raises DatabaseUnavailable when there is no NB_Global row yet."""
        if self.abandoned:
            raise DatabaseUnavailable("given up before it was sent")
        row = next(iter(self.api.idl.tables["NB_Global"].rows.values()), None)
        if row is None:
            raise DatabaseUnavailable("the Northbound database has no NB_Global row: run ovn-nbctl init")
        now = bfd.ours(row.options)
        self.result = now != self._wanted
        row.verify("options")  # "exactly these" would not hold if another one set some meanwhile
        for key in now.keys() - self._wanted.keys():
            row.delkey("options", key)
        for key, value in self._wanted.items():
            if now.get(key) != value:
                row.setkey("options", key, value)
