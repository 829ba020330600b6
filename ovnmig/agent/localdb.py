"""The local Open vSwitch database, followed by a thread of its own; all others read immutable views."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ovs import poller
from ovs.db import idl
from ovsdbapp.backend.ovs_idl import idlutils

_log = logging.getLogger(__name__)
_RETRY_S = 1.0
_SCHEMA = "Open_vSwitch"
_COLUMNS: Mapping[str, list[str]] = {
    "Open_vSwitch": ["external_ids", "ovs_version", "bridges"],
    "Bridge": ["name", "external_ids", "ports"],
    "Port": ["name", "external_ids", "interfaces"],
    "Interface": ["name", "type", "ofport", "admin_state", "link_state", "bfd_status"],
}


class LocalDatabaseError(Exception):
    """The local Open vSwitch database cannot be read; the text says where it was looked for."""


@dataclass(frozen=True, slots=True)
class Interface:
    """A row of Interface; ``ofport`` is 0 until the bridge has assigned one."""

    name: str
    type: str
    ofport: int
    up: bool
    bfd: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Port:
    """A row of Port."""

    name: str
    external_ids: Mapping[str, str]
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True, slots=True)
class Bridge:
    """A row of Bridge."""

    name: str
    external_ids: Mapping[str, str]
    ports: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class LocalView:
    """The database at one instant. ``connected`` False: this is what it held when the connection broke."""

    connected: bool = False
    external_ids: Mapping[str, str] = field(default_factory=dict)
    ovs_version: str = ""
    bridges: Mapping[str, Bridge] = field(default_factory=dict)


class LocalDatabase:
    """Follows the database from :meth:`start` to :meth:`stop`; ``view`` is the newest it has seen."""

    def __init__(self, remote: str) -> None:
        self.remote = remote
        self.view = LocalView()
        self._watchers: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._follow, name="local-ovsdb", daemon=True)

    async def start(self, timeout_s: float = 10.0) -> None:
        """Begin to follow and return with the first view. Raises LocalDatabaseError after ``timeout_s``."""
        self._loop = asyncio.get_running_loop()
        first = asyncio.Event()
        self.watch(first.set)
        self._thread.start()
        try:
            async with asyncio.timeout(timeout_s):
                await first.wait()
        except TimeoutError:
            await self.stop()
            raise LocalDatabaseError(
                f"no answer from the Open vSwitch database at {self.remote} within {timeout_s:.0f} s: "
                "is ovsdb-server running, and may this user open its socket?"
            ) from None
        finally:
            self.unwatch(first.set)

    async def stop(self) -> None:
        """End the thread; the last view stays."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        os.write(self._stop_write, b"x")
        self._thread.join()
        os.close(self._stop_read)
        os.close(self._stop_write)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` in the event loop after every new view."""
        self._watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        """Undo :meth:`watch`."""
        self._watchers.remove(changed)

    def _notify(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    def _publish(self, view: LocalView) -> None:
        self.view = view
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify)

    def _follow(self) -> None:
        helper = self._fetch_schema()
        if helper is None:
            return
        for table, columns in _COLUMNS.items():
            helper.register_columns(table, columns)
        connection = idl.Idl(self.remote, helper)
        seen: tuple[int, bool] = (connection.change_seqno, False)
        while True:
            connection.run()
            # The library offers no public word for "connected now"; ovsdbapp asks the session too.
            now = (connection.change_seqno, connection._session.is_connected())
            if now != seen and connection.has_ever_connected():
                seen = now
                self._publish(_read(connection, now[1]))
            wait = poller.Poller()
            wait.fd_wait(self._stop_read, select.POLLIN)
            connection.wait(wait)
            wait.block()
            if _readable(self._stop_read):
                connection.close()
                return

    def _fetch_schema(self) -> idl.SchemaHelper | None:
        while True:
            try:
                return idlutils.get_schema_helper(self.remote, _SCHEMA)
            except Exception as error:  # the library raises bare Exception here
                _log.warning("the Open vSwitch database at %s does not answer: %s", self.remote, error)
            wait = poller.Poller()
            wait.fd_wait(self._stop_read, select.POLLIN)
            wait.timer_wait(int(_RETRY_S * 1000))
            wait.block()
            if _readable(self._stop_read):
                return None


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _read(connection: idl.Idl, connected: bool) -> LocalView:
    tables = connection.tables
    root = next(iter(tables["Open_vSwitch"].rows.values()), None)
    if root is None:
        return LocalView(connected=connected)
    bridges = {row.name: _bridge(row) for row in root.bridges}
    version = root.ovs_version
    return LocalView(
        connected, _frozen(root.external_ids), version[0] if version else "", MappingProxyType(bridges)
    )


def _bridge(row: idl.Row) -> Bridge:
    ports = tuple(
        Port(port.name, _frozen(port.external_ids), tuple(_interface(one) for one in port.interfaces))
        for port in row.ports
    )
    return Bridge(row.name, _frozen(row.external_ids), ports)


def _interface(row: idl.Row) -> Interface:
    up = row.admin_state == ["up"] and row.link_state == ["up"]
    ofport = row.ofport[0] if row.ofport and row.ofport[0] > 0 else 0
    return Interface(row.name, row.type, ofport, up, _frozen(row.bfd_status))


def _frozen(values: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(values))
