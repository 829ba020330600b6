"""Puts the parts together: settings and drivers make a controller, a controller makes a service."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from uuid import uuid4

import structlog
import uvicorn
from typing_extensions import override

from ovnmig import __version__, logs, pki
from ovnmig.core.deadlines import Limits
from ovnmig.core.views import SbView
from ovnmig.drivers.clock import SystemClock
from ovnmig.drivers.history import SqliteHistory
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.drivers.ovn_nb import OvnNorthbound
from ovnmig.drivers.ovn_sb import OvnSouthbound
from ovnmig.drivers.ovsdb import TlsFiles
from ovnmig.engine.controller import Controller
from ovnmig.engine.options import EngineOptions
from ovnmig.engine.protocols import DatabaseUnavailable, Northbound, Southbound
from ovnmig.metrics import Metrics
from ovnmig.pki import KeyFiles, PkiError, Role
from ovnmig.service.app import create_app
from ovnmig.service.guard import ListenRefused, check_listen_address
from ovnmig.settings import Settings, SettingsError, load_agent_settings, load_settings

GRACE_S = 3
"""Seconds that requests under way have at the end; event streams are ended at once."""
_log = structlog.get_logger("ovnmig.serve")


class StartRefused(Exception):
    """The program does not start; the message and the details say what to do."""

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)


class RememberingSouthbound:
    """A Southbound that keeps the last picture, so that an agent's address is known without another read.

    The engine always looks at SB before it calls an agent, so what is remembered is what it decided on.
    """

    def __init__(self, inner: Southbound, control_port: int) -> None:
        self._inner = inner
        self._control_port = control_port
        self._last: SbView | None = None

    async def view(self) -> SbView:
        """As the Protocol says."""
        self._last = await self._inner.view()
        return self._last

    async def wait_until(self, predicate: Callable[[SbView], bool], timeout_s: float) -> bool:
        """As the Protocol says."""

        def look(view: SbView) -> bool:
            self._last = view
            return predicate(view)

        return await self._inner.wait_until(look, timeout_s)

    async def healthy(self) -> str:
        """As the Protocol says."""
        return await self._inner.healthy()

    def address(self, chassis: str) -> tuple[str, int]:
        """Where the agent of ``chassis`` takes orders: its first encap address. Raises LookupError."""
        if self._last is None:
            raise LookupError("the Southbound database has not been read yet")
        found = self._last.find_chassis(chassis)
        if found is None:
            raise LookupError(f"there is no chassis {chassis!r} in the Southbound database")
        if not found.encap_ips:
            raise LookupError(f"chassis {chassis!r} has no encap address in the Southbound database")
        return found.encap_ips[0], self._control_port


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to us: it would raise them again before the engine is stopped."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _tls_files(settings: Settings) -> TlsFiles | None:
    if settings.ovsdb_key is None or settings.ovsdb_cert is None or settings.ovsdb_ca is None:
        return None
    return TlsFiles(str(settings.ovsdb_key), str(settings.ovsdb_cert), str(settings.ovsdb_ca))


def controller_files(settings: Settings) -> KeyFiles:
    """The controller's certificate for its calls to agents. Raises StartRefused."""
    files = KeyFiles.of(settings.pki_dir, settings.certificate)
    try:
        files.check()
        holder = pki.certificate_identity(files.certificate)
    except PkiError as error:
        hint = f"ovnmig pki init --dir D && ovnmig pki issue {settings.certificate} --controller --dir D"
        raise StartRefused(
            f"no certificate for calls to agents: {error}",
            (f"make one with: {hint}", "say where it is with OVNMIG_PKI_DIR and OVNMIG_CERTIFICATE"),
        ) from None
    if holder.role is not Role.CONTROLLER:
        raise StartRefused(
            f"{files.certificate} is for {holder}: agents take orders from a controller only",
            (f"issue one with: ovnmig pki issue {settings.certificate} --controller --dir D",),
        )
    return files


def listener(settings: Settings) -> socket.socket:
    """The listening socket of the REST service. Raises StartRefused."""
    address, port = settings.listen_address.strip("[]"), settings.listen_port
    try:
        check_listen_address(settings.listen_address)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=128)
    except ListenRefused as error:
        raise StartRefused(str(error)) from None
    except OSError as error:
        raise StartRefused(
            f"cannot listen on {address}:{port}: {error.strerror or error}",
            ("is another 'ovnmig serve' running? OVNMIG_LISTEN_PORT names another port",),
        ) from None


async def _connect(name: str, database: OvnNorthbound | OvnSouthbound) -> None:
    try:
        await database.start()
    except DatabaseUnavailable as error:
        _log.warning("database unavailable, trying on", database=name, error=str(error))


def _options(settings: Settings) -> EngineOptions:
    limits = Limits(
        preparing_s=settings.preparing_s,
        copying_s=settings.copying_s,
        ready_s=settings.ready_s,
        switching_s=settings.switching_s,
    )
    zones = (settings.snat_zone_first, settings.snat_zone_last)
    return EngineOptions(limits=limits, zone_range=zones, sweep_s=settings.sweep_s)


async def serve(settings: Settings) -> None:
    """Controller and REST service until SIGTERM or SIGINT. Raises StartRefused.

    Ending rolls nothing back: a migration in flight is resumed by the next start.
    """
    files = controller_files(settings)
    tls = _tls_files(settings)
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(listener(settings))
        history, clock = SqliteHistory(settings.history_file), SystemClock()
        await history.start()
        stack.push_async_callback(history.close)
        if history.problem:
            await history.append(
                at=clock.now(), kind="history", udn="", migration="", message=history.problem, details={}
            )
        northbound: Northbound
        nb = OvnNorthbound(settings.nb, owner=settings.owner, tls=tls, timeout_s=settings.ovsdb_timeout_s)
        stack.push_async_callback(nb.close)
        sb = OvnSouthbound(settings.sb, tls=tls, timeout_s=settings.ovsdb_timeout_s)
        stack.push_async_callback(sb.close)
        async with asyncio.TaskGroup() as group:
            group.create_task(_connect("NB", nb))
            group.create_task(_connect("SB", sb))
        northbound, southbound = nb, RememberingSouthbound(sb, settings.agent_control_port)
        agents = NodeAgents(files, southbound.address, settings.owner)
        stack.push_async_callback(agents.aclose)
        metrics = Metrics()
        controller = Controller(
            northbound=northbound,
            southbound=southbound,
            agents=agents,
            history=history,
            clock=clock,
            owner=settings.owner,
            options=_options(settings),
            new_id=lambda: uuid4().hex,
            counters=metrics,
        )
        await stack.enter_async_context(controller)
        closing = asyncio.Event()
        app = create_app(
            controller,
            version=__version__,
            metrics=metrics.render,
            closing=closing,
            allowed_hosts=settings.allowed_hosts,
        )
        await _serve_http(app, listening, closing)


async def _serve_http(app: Callable[..., object], listening: socket.socket, closing: asyncio.Event) -> None:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)

    def stop() -> None:
        closing.set()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    ends = (signal.SIGTERM, signal.SIGINT)
    for number in ends:
        loop.add_signal_handler(number, stop)
    address, port = listening.getsockname()[:2]
    _log.info("service started", version=__version__, address=address, port=port)
    try:
        await server.serve([listening])
    finally:
        for number in ends:
            loop.remove_signal_handler(number)
        _log.info("service stopped")


def run_service() -> None:
    """``ovnmig serve``. Raises StartRefused."""
    try:
        settings = load_settings()
    except SettingsError as error:
        raise StartRefused("the settings cannot be used", error.problems) from None
    logs.configure(settings.log_format, settings.log_level)
    asyncio.run(serve(settings))


def run_agent() -> None:
    """``ovnmig agent``. Raises StartRefused."""
    from ovnmig.agent.main import CannotStart, run
    from ovnmig.agent.settings import AgentSettings

    try:
        settings = load_agent_settings()
    except SettingsError as error:
        raise StartRefused("the settings cannot be used", error.problems) from None
    logs.configure(settings.log_format, settings.log_level)
    fields = settings.model_dump(exclude={"log_format", "log_level"})
    try:
        asyncio.run(run(AgentSettings(**fields)))
    except CannotStart as error:
        raise StartRefused(str(error)) from None
