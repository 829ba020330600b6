"""The agent from its first look at the node to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import uvicorn
from typing_extensions import override

import ovnmig
from ovnmig import pki
from ovnmig.agent import ovs
from ovnmig.agent.announce import Announcements
from ovnmig.agent.app import create_app
from ovnmig.agent.faults import Faults
from ovnmig.agent.gate import Gates
from ovnmig.agent.localdb import LocalDatabase, LocalDatabaseError
from ovnmig.agent.node import Node
from ovnmig.agent.parts import Parts
from ovnmig.agent.peer import IdentifyingProtocol
from ovnmig.agent.roles import Roles
from ovnmig.agent.settings import AgentSettings
from ovnmig.agent.store import Copies, Fence
from ovnmig.agent.stream import StreamServer
from ovnmig.agent.takeover import Takeover
from ovnmig.agent.transfers import Transfers
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import ensure_events, read_zone, table_stats
from ovnmig.pki import KeyFiles, PkiError, Role

_log = logging.getLogger(__name__)
_ANY_ZONE = 1
"""Read once at start, only to see that the kernel lets us."""


class CannotStart(Exception):
    """The agent cannot run on this node as things are; the text says what to do."""


async def run(settings: AgentSettings) -> None:
    """Serve until cancelled (SIGTERM and SIGINT end it too). Raises CannotStart."""
    database = LocalDatabase(settings.database or f"unix:{settings.ovs_rundir / 'db.sock'}")
    try:
        await database.start()
    except LocalDatabaseError as error:
        raise CannotStart(str(error)) from None
    try:
        await _serve(settings, database)
    finally:
        await database.stop()


async def _serve(settings: AgentSettings, database: LocalDatabase) -> None:
    chassis = settings.chassis or ovs.system_id(database.view)
    if not chassis:
        raise CannotStart(
            "the local database has no external_ids:system-id: name the chassis in the settings"
        )
    listen = settings.listen or ovs.encap_ip(database.view, chassis)
    if not listen:
        raise CannotStart("the local database has no external_ids:ovn-encap-ip: name an address to listen on")
    files = await asyncio.to_thread(_files, settings, chassis)
    await asyncio.to_thread(_prepare_kernel)
    async with AsyncExitStack() as stack:
        try:
            worker = await stack.enter_async_context(Worker("node"))
            await worker.run(read_zone, worker.socket, _ANY_ZONE)
        except OSError as error:
            raise CannotStart(f"conntrack cannot be read ({error}): the agent needs CAP_NET_ADMIN") from None
        copies, orders = Copies(), Fence()
        roles = Roles(orders)
        faults = Faults()
        streams = StreamServer(files, chassis, lambda: database.view, copies, Fence(), roles, faults)
        try:
            stream_port = await stack.enter_async_context(streams.listening(listen, settings.stream_port))
        except OSError as error:
            raise CannotStart(
                f"cannot listen for streams on {listen}:{settings.stream_port}: {error}"
            ) from None
        listener = stack.enter_context(_listen(listen, settings.control_port))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        background = stack.enter_context(_Background(group))
        takeover = Takeover(chassis, lambda: database.view, copies, background.spawn)
        announcements = Announcements(
            chassis, settings.ovs_rundir, lambda: database.view, orders, background.spawn, takeover.claimed
        )
        roles.watch(announcements.resident)
        gates = Gates(chassis, settings.ovs_rundir, lambda: database.view)
        parts = Parts(
            Node(chassis, lambda: database.view, worker),
            Transfers(chassis, files, lambda: database.view, copies, orders, background.spawn, faults, gates),
            announcements,
            streams,
            stream_port,
        )
        _log.info("agent of chassis %r listens on %s:%d", chassis, listen, settings.control_port)
        await _serve_control(parts, files, listener)


def _files(settings: AgentSettings, chassis: str) -> KeyFiles:
    usual = KeyFiles.of(settings.pki_dir, chassis)
    files = KeyFiles(usual.ca, settings.certificate or usual.certificate, settings.key or usual.key)
    try:
        pki.server_context(files)
        holder = pki.certificate_identity(files.certificate)
    except (PkiError, OSError) as error:
        raise CannotStart(str(error)) from None
    if (holder.role, holder.name) != (Role.CHASSIS, chassis):
        raise CannotStart(
            f"{files.certificate} is for {holder}, this is chassis {chassis!r}: issue one for it"
        )
    return files


def _prepare_kernel() -> None:
    try:
        table_stats()
        if ensure_events():
            _log.info("nf_conntrack_events set to 1: entries born before are followed by dumps only")
    except FileNotFoundError:
        raise CannotStart(
            "the kernel has no connection tracking (/proc/sys/net/netfilter): load nf_conntrack first"
        ) from None
    except OSError as error:
        raise CannotStart(
            f"nf_conntrack_events cannot be set to 1 ({error.strerror}): "
            "set net.netfilter.nf_conntrack_events=1 with sysctl, or give the agent CAP_NET_ADMIN"
        ) from None


class _Background:
    """Tasks that end with the agent; a fault in one is logged and takes no other down."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> _Background:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(_guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        _log.exception("a background task ended by a fault of this agent")


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the agent: it would raise them again before the rest is closed."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(listen: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    try:
        return socket.create_server((listen, port), family=family, backlog=128)
    except OSError as error:
        raise CannotStart(f"cannot listen for orders on {listen}:{port}: {error}") from None


async def _serve_control(parts: Parts, files: KeyFiles, listener: socket.socket) -> None:
    context = await asyncio.to_thread(pki.server_context, files)
    config = uvicorn.Config(
        create_app(parts, ovnmig.__version__),
        http=IdentifyingProtocol,
        ssl_context_factory=lambda *_: context,
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        # Longer than any client keeps an idle connection: it must never send into one that closes just now.
        timeout_keep_alive=60,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    ends = (signal.SIGTERM, signal.SIGINT)
    for number in ends:
        loop.add_signal_handler(number, setattr, server, "should_exit", True)
    try:
        await server.serve([listener])
    finally:
        for number in ends:
            loop.remove_signal_handler(number)
