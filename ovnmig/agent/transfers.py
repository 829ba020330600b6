"""The transfers this agent sends, by id. A job outlives the controller that ordered it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ovnmig.agent import link
from ovnmig.agent.faults import Faults
from ovnmig.agent.frames import FrameError
from ovnmig.agent.gate import Gates
from ovnmig.agent.link import Link, LinkLost, PeerRefused
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.sender import Sender
from ovnmig.agent.source import CannotTransfer, Source
from ovnmig.agent.store import Copies, Fence
from ovnmig.agent.tally import Tally
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import BadRecords, NetlinkError
from ovnmig.core.transfer import HeldOrder, OrderKind, TransferOrder, TransferState, TransferStatus
from ovnmig.pki import Identity, KeyFiles, Role

_log = logging.getLogger(__name__)
PERSIST_S: Final = 15.0
"""How long a transfer tries to reach its peer again before it fails and the engine decides."""
RETRY_S: Final = 0.5
KEEP_RETRY_S: Final = 3.0
"""The longest pause of a standing transfer, which tries for ever."""
MAX_FAILURES: Final = 20
"""Connections that ended before the transfer was in step, one after another."""
FINAL_TIMEOUT_S: Final = 8.0
MAX_JOBS: Final = 1024

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
_SETTLED = (TransferState.IN_STEP, TransferState.FINAL)
_TRANSIENT = (LinkLost, FrameError, BadRecords, OSError, NetlinkError)


class OrderRefused(Exception):
    """The order cannot be followed as things stand; the text says why."""


class Job:
    """One transfer."""

    def __init__(self, order: TransferOrder) -> None:
        self.order = order
        self.given_at = time.monotonic()
        self.state = TransferState.CONNECTING
        self.reason = ""
        self.final = asyncio.Event()
        self.tally = Tally()
        self.task: asyncio.Task[None] | None = None
        self.alive_at = time.monotonic()
        self.handed_over = False
        self._changed = asyncio.Event()
        self._link: Link | None = None
        self._sender: Sender | None = None
        self._source: Source | None = None
        self._rounds = 0

    def status(self) -> TransferStatus:
        """The answer to a question about this transfer."""
        over = self.state is TransferState.FAILED
        source, sender = self._source, self._sender
        return TransferStatus(
            id=self.order.id,
            state=self.state,
            counts=self.tally.counts(over=over),
            rounds=self._rounds + (source.rounds if source else 0),
            pending=0 if over else (sender.pending if sender else 0) + (source.differing if source else 0),
            reason=self.reason,
            refused_entries=tuple(self.tally.words),
            synced_s=None if self.tally.synced_at is None else time.monotonic() - self.tally.synced_at,
            put_back=self.tally.put_back,
        )

    def alarm(self) -> str:
        """What a person should know of this transfer, in words; empty while all is well."""
        words = f"transfer {self.order.id!r} to chassis {self.order.peer.chassis!r}"
        if self.reason:
            return f"{words} is {self.state.value}: {self.reason}"
        silent_s = self._link.silent_s if self._link else 0.0
        return f"{words} hears nothing from there for {silent_s:.0f} s" if silent_s > link.SILENT_S else ""

    def set_state(self, state: TransferState) -> None:
        """Take a new state; whoever waits for one looks again."""
        self.state = state
        self.handed_over = self.handed_over or state is TransferState.FINAL
        self.reason = ""
        self._changed.set()

    def fail(self, reason: str) -> None:
        """End with a reason."""
        _log.error("transfer %s to %s failed: %s", self.order.id, self.order.peer.chassis, reason)
        self.state, self.reason = TransferState.FAILED, reason
        self._changed.set()

    async def wait_for(self, *states: TransferState) -> None:
        """Return once the state is one of these."""
        while self.state not in states:
            self._changed.clear()
            await self._changed.wait()

    async def connected(
        self, chassis: str, view: Callable[[], LocalView], copies: Copies, peer: Link, worker: Worker
    ) -> None:
        """Work over one connection until it ends, which always raises."""
        self._link = peer
        sender = self._sender = Sender(peer, self.tally, self.order, chassis)
        source = self._source = Source(self.order, chassis, view, copies, sender, worker, self.tally)
        try:
            await source.begin(self.handed_over)
            self.alive_at = time.monotonic()
            async with asyncio.TaskGroup() as group:
                group.create_task(sender.read_answers())
                group.create_task(peer.keep_alive())
                await source.run(self.handed_over, self.set_state, self.final)
        except BaseExceptionGroup as several:
            raise link.first_cause(several) from None
        finally:
            if sender.indexes:
                self.alive_at = time.monotonic()
            sender.take_back()
            self._rounds += source.rounds
            self._link = self._sender = self._source = None


class Transfers:
    """All jobs of this agent. ``spawn`` starts a task that lives as long as the agent."""

    def __init__(
        self,
        chassis: str,
        files: KeyFiles,
        view: Callable[[], LocalView],
        copies: Copies,
        fence: Fence,
        spawn: Spawn,
        faults: Faults | None = None,
        gates: Gates | None = None,
    ) -> None:
        self._chassis = chassis
        self._files = files
        self._view = view
        self._copies = copies
        self._fence = fence
        self._spawn = spawn
        self._faults = faults or Faults()
        self._gates = gates
        self._jobs: dict[str, Job] = {}

    def __len__(self) -> int:
        return sum(job.state is not TransferState.FAILED for job in self._jobs.values())

    @property
    def put_back(self) -> int:
        """Copies that had vanished from their target and were sent again, over the known transfers."""
        return sum(job.tally.put_back for job in self._jobs.values())

    def alarms(self) -> tuple[str, ...]:
        """In words: transfers that are interrupted, have failed, or hear nothing from their target."""
        return tuple(words for job in self._jobs.values() if (words := job.alarm()))

    def all(self) -> tuple[TransferStatus, ...]:
        """Every transfer that is known, failed ones too."""
        return tuple(job.status() for job in self._jobs.values())

    def held(self) -> tuple[HeldOrder, ...]:
        """The orders behind them, failed ones too: each goes on, or is remembered, until it is ended."""
        now = time.monotonic()
        return tuple(
            HeldOrder(
                kind=OrderKind.TRANSFER,
                id=job.order.id,
                udn=job.order.udn,
                epoch=job.order.epoch,
                age_s=now - job.given_at,
                migration=job.order.migration,
                deployment=job.order.deployment,
                target=job.order.peer.chassis,
                keep=job.order.keep,
            )
            for job in self._jobs.values()
        )

    def start(self, order: TransferOrder) -> TransferStatus:
        """Begin, or answer about the job of that id. A failed one begins anew.

        Raises StaleEpoch, and OrderRefused when the id is that of another transfer.
        """
        known = self._jobs.get(order.id)
        if known and not known.order.same_work(order):
            raise OrderRefused(f"transfer {order.id!r} exists with other zones or another peer: end it first")
        if known and known.state is not TransferState.FAILED:
            return known.status()
        self._fence.pass_through(order.udn, order.epoch, "an order")
        if len(self._jobs) >= MAX_JOBS:
            raise OrderRefused(f"{MAX_JOBS} transfers are known here already: end some first")
        if order.peer.chassis == self._chassis:
            raise OrderRefused(f"chassis {self._chassis!r} would stream to itself")
        job = self._jobs[order.id] = Job(order)
        job.task = self._spawn(self._run(job))
        return job.status()

    def status(self, transfer_id: str) -> TransferStatus | None:
        """None: unknown here."""
        job = self._jobs.get(transfer_id)
        return job.status() if job else None

    async def finish(self, transfer_id: str) -> TransferStatus | None:
        """Hand over and return once the target has acknowledged it. None: unknown here.

        Raises OrderRefused when the transfer failed, or took more than FINAL_TIMEOUT_S (it goes on).
        """
        job = self._jobs.get(transfer_id)
        if job is None:
            return None
        if job.order.gate and self._gates:
            await self._gates.close(job.order.gate)
        job.final.set()
        try:
            async with asyncio.timeout(FINAL_TIMEOUT_S):
                await job.wait_for(TransferState.FINAL, TransferState.FAILED)
        except TimeoutError:
            raise OrderRefused(
                f"the final delta was not acknowledged within {FINAL_TIMEOUT_S:.0f} s ({job.state.value}"
                f"{', ' + job.reason if job.reason else ''}); the transfer goes on: ask again"
            ) from None
        if job.state is TransferState.FAILED:
            raise OrderRefused(f"the transfer failed: {job.reason}")
        return job.status()

    async def end(self, transfer_id: str) -> None:
        """Stop and forget a transfer. No entry is removed on either side."""
        job = self._jobs.pop(transfer_id, None)
        if job is not None and job.task is not None:
            job.task.cancel()
            await asyncio.wait([job.task])
        if job is not None and job.order.gate and self._gates and job.final.is_set():
            await self._gates.open(job.order.gate)

    async def _run(self, job: Job) -> None:
        failures = 0
        try:
            while True:
                problem = await self._attempt(job)
                failures = 1 if job.state in _SETTLED else failures + 1
                over = failures > MAX_FAILURES or time.monotonic() - job.alive_at > PERSIST_S
                if over and not job.order.keep:
                    job.fail(problem)
                    return
                if not job.handed_over:
                    job.state = TransferState.CONNECTING
                job.reason = problem
                await asyncio.sleep(min(RETRY_S * failures, KEEP_RETRY_S) if job.order.keep else RETRY_S)
        except CannotTransfer as error:
            job.fail(str(error))
        except PeerRefused as error:
            job.fail(f"chassis {job.order.peer.chassis!r} refused: {error}")
        except Exception as error:
            _log.exception("transfer %s ended by a fault of this agent", job.order.id)
            job.fail(f"the agent of chassis {self._chassis!r} failed: {error!r}; its log has more")

    async def _attempt(self, job: Job) -> str:
        """One connection to its end; returns why it ended. What cannot be mended is raised."""
        peer = job.order.peer
        connection: Link | None = None
        try:
            identity = Identity(Role.CHASSIS, peer.chassis)
            connection = await link.connect(self._files, identity, peer.host, peer.port)
            async with Worker("source") as worker:
                await job.connected(self._chassis, self._view, self._copies, connection, worker)
        except PeerRefused as error:
            self._faults.note("source", error.code, str(error))
            if error.code != "internal" and not (job.order.keep and error.code == "format"):
                raise
            return str(error)
        except _TRANSIENT as error:
            kind = "format" if isinstance(error, FrameError | BadRecords) else "cut"
            self._faults.note("source", kind, str(error))
            _log.warning("transfer %s to %s: %s", job.order.id, peer.chassis, error)
            return str(error)
        finally:
            if connection is not None:
                await connection.close()
        raise AssertionError("a connection ends by raising")
