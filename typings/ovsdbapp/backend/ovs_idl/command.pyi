from typing import Any

from ovs.db.idl import Row, Transaction
from ovsdbapp import api as _api
from ovsdbapp.backend.ovs_idl import Backend

class BaseCommand(_api.Command):
    READ_ONLY: bool
    api: Backend
    def __init__(self, api: Backend) -> None: ...
    def run_idl(self, txn: Transaction) -> None: ...
    def post_commit(self, txn: Transaction) -> None: ...
    @classmethod
    def set_column(cls, row: Row, col: str, val: Any) -> None: ...
    @classmethod
    def set_columns(cls, row: Row, **columns: Any) -> None: ...

class ReadOnlyCommand(BaseCommand): ...

class AddCommand(BaseCommand):
    table_name: str
