from typing import Any

from ovs.db import idl
from ovsdbapp import api as _api
from ovsdbapp.backend.ovs_idl import Backend
from ovsdbapp.backend.ovs_idl.connection import Connection

class Transaction(_api.Transaction):
    api: Backend
    commands: list[_api.Command]
    timeout: float
    def __init__(
        self,
        api: Backend,
        ovsdb_connection: Connection,
        timeout: float | None = None,
        check_error: bool = False,
        log_errors: bool = True,
    ) -> None: ...
    def pre_commit(self, txn: idl.Transaction) -> None: ...
    def post_commit(self, txn: idl.Transaction) -> None: ...
    def do_commit(self) -> list[Any] | None: ...
