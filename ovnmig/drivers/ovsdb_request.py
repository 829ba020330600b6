"""One question to an OVSDB server on a connection of its own, with a time limit (python-ovs' own call has
none)."""

from __future__ import annotations

import errno
import os
import time
from typing import Any

from ovs import jsonrpc, poller, stream


class RequestFailed(Exception):
    """No usable answer; the text says why."""


def ask(remote: str, method: str, params: list[Any], timeout_s: float) -> Any:
    """The server's answer. Blocks. Raises RequestFailed: unreachable, silent for ``timeout_s``, or an
    error."""
    deadline = time.monotonic() + timeout_s
    error, opened = stream.Stream.open_block(stream.Stream.open(remote), int(timeout_s * 1000))
    if error:
        raise RequestFailed(os.strerror(error))
    connection = jsonrpc.Connection(opened)
    try:
        request = jsonrpc.Message.create_request(method, params)
        error = connection.send(request)
        while not error:
            error, message = _next(connection, deadline)
            if message is not None and message.id == request.id:
                if message.error:
                    raise RequestFailed(str(message.error))
                return message.result
        raise RequestFailed(os.strerror(error) if error > 0 else "the connection was closed")
    finally:
        connection.close()


def _next(connection: jsonrpc.Connection, deadline: float) -> tuple[int, jsonrpc.Message | None]:
    """The next message, or an error number (negative: end of file)."""
    while True:
        connection.run()
        error, message = connection.recv()
        if error != errno.EAGAIN:
            return error, message
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return errno.ETIMEDOUT, None
        waiter = poller.Poller()
        connection.wait(waiter)
        connection.recv_wait(waiter)
        waiter.timer_wait(int(left_s * 1000) + 1)
        waiter.block()
