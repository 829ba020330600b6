from typing import Any

from ovs.stream import Stream

class Message:
    T_REPLY: int
    T_ERROR: int
    T_NOTIFY: int
    type: int
    id: Any
    method: str | None
    params: Any
    result: Any
    error: Any
    @staticmethod
    def create_request(method: str, params: list[Any]) -> Message: ...

class Connection:
    def __init__(self, stream: Stream) -> None: ...
    def send(self, msg: Message) -> int: ...
    def recv_block(self) -> tuple[int, Message | None]: ...
    def transact_block(self, request: Message) -> tuple[int, Message | None]: ...
    def close(self) -> None: ...

class Reconnect:
    def set_backoff(self, min_backoff: int, max_backoff: int) -> None: ...

class Session:
    reconnect: Reconnect
    def is_connected(self) -> bool: ...
