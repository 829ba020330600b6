"""A live copy of an OVSDB database for async callers: connecting, reading under the copy's lock, one command
per transaction.

ovsdbapp's connection thread keeps the copy; every blocking call here runs in a worker thread, never on the
event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ovs import stream
from ovs.db import idl
from ovsdbapp import api, exceptions
from ovsdbapp.backend.ovs_idl import Backend, command, connection, idlutils

from ovnmig.drivers.changes import Changes
from ovnmig.drivers.ovsdb_request import RequestFailed, ask
from ovnmig.engine.protocols import DatabaseUnavailable

_T = TypeVar("_T")
RECONNECT_GRACE_S = 3.0
"""How long a read waits for a broken connection to come back before it fails."""
RECONNECT_MAX_MS = 1000
"""Longest pause between attempts to connect; python-ovs allows none shorter."""
PROBE_MS = 5000
"""A server silent for this long is probed, and left after as long again without an answer."""
WORKERS = 8
"""Calls to one database that may wait at the same time."""
LOCK_POLL_S = 0.01
"""While the first answer about the lock is out; python-ovs gives no event for "somebody else has it"."""
REBUILD_AFTER_S = 30.0
"""A copy that has not been in step for this long is thrown away and built anew (the server's schema may have
changed)."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files for ``ssl:`` remotes. python-ovs keeps one set per process, so all connections share them."""

    private_key: str
    certificate: str
    ca_certificate: str

    def install(self) -> None:
        """Make python-ovs use these files for connections opened from now on."""
        stream.Stream.ssl_set_private_key_file(self.private_key)
        stream.Stream.ssl_set_certificate_file(self.certificate)
        stream.Stream.ssl_set_ca_cert_file(self.ca_certificate)


class LiveIdl(connection.OvsdbIdl):
    """The copy. ``cache`` holds what was built from a row, keyed by the row's UUID, until that row
    changes."""

    def __init__(self, remotes: str, helper: idl.SchemaHelper, changes: Changes) -> None:
        super().__init__(remotes, helper)
        # python-ovs waits up to 8 s between attempts by default; migrations wait with it.
        self._session.reconnect.set_backoff(1000, RECONNECT_MAX_MS)
        # Set here: the argument of that name is ignored when the first remote is a Unix socket.
        self._session.reconnect.set_probe_interval(PROBE_MS)
        self.changes = changes
        self.cache: dict[Any, dict[Any, Any]] = {}
        self.in_step_at = time.monotonic()
        self._picture: tuple[int, Any] | None = None

    def notify(self, event: str, row: idl.Row, updates: idl.Row | None = None) -> None:
        self.cache.pop(row.uuid, None)

    def run(self) -> bool:
        changed = super().run()
        if self.in_step:
            self.in_step_at = time.monotonic()
        if changed:
            self.changes.note()
        return changed

    @property
    def in_step(self) -> bool:
        """Connected and following the server's changes."""
        return self.state == idl.Idl.IDL_S_MONITORING and self._session.is_connected()

    def cached(self, row: idl.Row, build: Callable[[idl.Row], _T]) -> _T:
        """``build(row)``, remembered until the row changes. Hold the connection's lock, and change nothing
        first."""
        built = self.cache.setdefault(row.uuid, {})
        if build not in built:
            built[build] = build(row)
        found: _T = built[build]
        return found

    def picture(self, build: Callable[[LiveIdl], _T]) -> _T:
        """``build(self)``, remembered until anything changes. One builder per copy. Hold the connection's
        lock."""
        if self._picture is None or self._picture[0] != self.changes.count:
            self._picture = (self.changes.count, build(self))
        found: _T = self._picture[1]
        return found


class _Api(Backend, api.API):
    """ovsdbapp's command interface, on a connection of its own: stock backends share one per class."""

    def __init__(self, own_connection: connection.Connection, schema: str) -> None:
        self._own = own_connection
        self.schema = schema
        # No indexes: ovsdbapp makes them of all schema keys, and a key we do not monitor breaks the deletion.
        super().__init__(own_connection, start=False, auto_index=False)

    @property
    def ovsdb_connection(self) -> connection.Connection:
        return self._own

    @ovsdb_connection.setter
    def ovsdb_connection(self, value: connection.Connection) -> None:
        pass


class Command(command.BaseCommand):
    """A command of ours. ``abandoned`` is set when nobody waits for it any more: it must then not begin to
    write."""

    abandoned = False


class OvsdbClient:
    """One database. ``columns``: table -> columns wanted; those the live schema lacks are left out."""

    def __init__(
        self,
        remotes: str,
        schema: str,
        columns: Mapping[str, tuple[str, ...]],
        *,
        tls: TlsFiles | None,
        timeout_s: float,
    ) -> None:
        self.remotes = remotes
        self.changes = Changes()
        self._schema = schema
        self._columns = columns
        self._tls = tls
        self._timeout_s = timeout_s
        self._connecting = threading.Lock()
        self._api: _Api | None = None
        self._closed = False
        self._lock_name: str | None = None
        # Threads of its own: calls that wait for one database must not keep others from running.
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix=schema)

    async def start(self) -> None:
        """Connect. Raises DatabaseUnavailable; later calls then try again by themselves."""
        await self._in_thread(self._connected)

    async def close(self) -> None:
        """Stop following the database."""
        await asyncio.to_thread(self._close)
        self._workers.shutdown(wait=False)

    async def read(self, fn: Callable[[LiveIdl], _T], grace_s: float = RECONNECT_GRACE_S) -> _T:
        """``fn`` on the copy, at one instant. Raises DatabaseUnavailable when the copy is not in step with
        the server."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + grace_s
        while True:
            seen = self.changes.count
            try:
                return await self._in_thread(partial(self._read, fn))
            except DatabaseUnavailable:
                left = deadline - clock()
                if left <= 0 or self._closed:
                    raise
                await self.changes.wait(seen, min(left, 0.25))

    async def execute(self, make: Callable[[Backend], Command]) -> Any:
        """Run one command as one transaction and return its result. Raises what the command raises,
        RuntimeError on an OVSDB error, DatabaseUnavailable when it was not answered in time (it may then be
        carried out or not)."""
        return await self._in_thread(partial(self._execute, make))

    async def with_idl(self, fn: Callable[[LiveIdl], _T]) -> _T:
        """``fn`` on the copy whether it is in step or not."""
        return await self._in_thread(partial(self._with_idl, fn))

    async def try_lock(self, name: str, timeout_s: float = 1.0) -> bool:
        """True while this connection holds the server's lock ``name``. The first call asks for it and waits a
        moment for the answer; from then on every write needs the lock, and the copy asks again after each
        reconnect."""
        self._lock_name = name

        def ask(live: LiveIdl) -> bool:
            if live.lock_name is None:
                live.set_lock(name)
            return live.has_lock or live.is_lock_contended or not live.in_step

        for _ in range(int(timeout_s / LOCK_POLL_S)):
            if await self.with_idl(ask):
                break
            await asyncio.sleep(LOCK_POLL_S)
        return await self.with_idl(lambda live: live.in_step and live.has_lock)

    async def _in_thread(self, fn: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._workers, fn)
        except RuntimeError:
            if self._closed:
                raise DatabaseUnavailable(f"the connection to {self._schema} was closed") from None
            raise

    def problem(self) -> str:
        """Empty when connected and in step, else what is wrong, in words. Takes no lock."""
        if self._api is None:
            return f"not connected to {self._schema} at {self.remotes}"
        live = _live(self._api)
        if live.in_step:
            return ""
        age_s = time.monotonic() - live.in_step_at
        return f"{self._schema} at {self.remotes} has not answered for {age_s:.0f} s"

    def _read(self, fn: Callable[[LiveIdl], _T]) -> _T:
        backend = self._connected()
        with _locked(backend, self._timeout_s):
            live = _live(backend)
            if not live.in_step:
                raise DatabaseUnavailable(self.problem())
            return fn(live)

    def _with_idl(self, fn: Callable[[LiveIdl], _T]) -> _T:
        backend = self._connected()
        with _locked(backend, self._timeout_s):
            return fn(_live(backend))

    def _execute(self, make: Callable[[Backend], Command]) -> Any:
        backend = self._connected()
        order = make(backend)
        transaction = backend.create_transaction(check_error=True, log_errors=False)
        transaction.add(order)
        try:
            transaction.commit()
        except exceptions.TimeoutException:
            order.abandoned = True
            raise DatabaseUnavailable(f"{self._schema} at {self.remotes} did not answer in time") from None
        return order.result

    def _connected(self) -> _Api:
        with self._connecting:
            if self._closed:
                raise DatabaseUnavailable(f"the connection to {self._schema} was closed")
            if self._api is not None:
                live = _live(self._api)
                if live.in_step or time.monotonic() - live.in_step_at < REBUILD_AFTER_S:
                    return self._api
                self._api.ovsdb_connection.stop(self._timeout_s)
                self._api = None
            self._api = self._connect()
            return self._api

    def _connect(self) -> _Api:
        if self._tls is not None:
            self._tls.install()
        schema = _fetch_schema(self.remotes, self._schema, self._timeout_s)
        helper = idl.SchemaHelper(None, schema)
        for table, wanted in self._columns.items():
            present = schema["tables"].get(table, {}).get("columns", {})
            columns = [column for column in wanted if column in present]
            if columns:
                helper.register_columns(table, columns)
        live = LiveIdl(self.remotes, helper, self.changes)
        if self._lock_name is not None:
            live.set_lock(self._lock_name)
        backend = _Api(connection.Connection(live, self._timeout_s), self._schema)
        try:
            backend.ovsdb_connection.start()
        except Exception as error:
            live.close()
            raise DatabaseUnavailable(f"cannot read {self._schema} from {self.remotes}: {error}") from error
        return backend

    def _close(self) -> None:
        with self._connecting:
            self._closed = True
            if self._api is not None:
                self._api.ovsdb_connection.stop(self._timeout_s)
                self._api = None


class _locked:
    """Holds the connection's lock; raises DatabaseUnavailable when a transaction keeps it for longer than
    ``timeout_s``."""

    def __init__(self, backend: _Api, timeout_s: float) -> None:
        self._lock = backend.ovsdb_connection.lock
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._timeout_s):
            raise DatabaseUnavailable("a transaction has been waiting for the database for too long")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _live(backend: _Api) -> LiveIdl:
    live = backend.ovsdb_connection.idl
    assert isinstance(live, LiveIdl)  # noqa: S101 (built so in _connect)
    return live


def _fetch_schema(remotes: str, name: str, timeout_s: float) -> dict[str, Any]:
    """The live schema, from the first remote that answers. Raises DatabaseUnavailable."""
    reasons = []
    for remote in idlutils.parse_connection(remotes):
        try:
            schema: dict[str, Any] = ask(remote, "get_schema", [name], timeout_s)
        except RequestFailed as failure:
            reasons.append(f"{remote}: {failure}")
        else:
            return schema
    raise DatabaseUnavailable(f"no server of {name} answered ({'; '.join(reasons)})")
