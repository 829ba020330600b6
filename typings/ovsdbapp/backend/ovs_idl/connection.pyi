import threading
from collections.abc import Iterable
from typing import Any, Self

from ovs.db.idl import Idl, SchemaHelper

class Connection:
    timeout: float
    lock: threading.RLock
    idl: Idl
    thread: threading.Thread | None
    is_running: bool | None
    def __init__(self, idl: Idl, timeout: float) -> None: ...
    def start(self) -> bool | None: ...
    def stop(self, timeout: float | None = None) -> bool: ...
    def queue_txn(self, txn: Any) -> None: ...
    def force_reconnect(self) -> None: ...

class OvsdbIdl(Idl):
    @classmethod
    def from_server(
        cls,
        connection_string: str,
        schema_name: str,
        *args: Any,
        helper: SchemaHelper | None = None,
        helper_tables: Iterable[str] | None = None,
        **kwargs: Any,
    ) -> Self: ...
    def post_connect(self) -> None: ...
