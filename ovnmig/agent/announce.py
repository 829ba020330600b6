"""Armed announcements: the moment a gateway port is claimed here and its flows are in, tell the network.

"Claimed and in" is read off the integration bridge itself: OVN installs the flow that translates a VIP back
(``ct(...,nat)`` without commit, for packets to the VIP) only where the chassis redirect port is resident
(``is_chassis_resident`` in northd's lr_in_unsnat), and ovn-controller commits all flows of one change in one
bundle. A flow monitor shows it without polling. The frames go in at the patch port of the provider bridge,
so that this bridge learns anew where the port's MAC is, and go out from there to the network.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final

from ovnmig.agent import ovs, packets, switch
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.openflow import FlowEvent, FlowUpdate, OpenFlowError
from ovnmig.agent.store import Fence
from ovnmig.agent.switch import Switch
from ovnmig.core.transfer import AnnounceOrder, AnnounceState, AnnounceStatus, HeldOrder, OrderKind

_log = logging.getLogger(__name__)
REPEATS_S: Final = (0.0, 0.1, 0.4, 1.0)
"""When the frames go out, from the claim on: one may be lost, or come before a switch listens."""
RETRY_S: Final = 0.2
MAX_ARMED: Final = 1024
_MAX_VLAN: Final = 4094

Address = IPv4Address | IPv6Address
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class BadOrder(ValueError):
    """The order cannot be followed; the text says what is wrong with it."""


class Armed:
    """One armed announcement. :meth:`run` watches and announces until it is cancelled."""

    def __init__(
        self,
        order: AnnounceOrder,
        chassis: str,
        rundir: Path,
        view: Callable[[], LocalView],
        claim_seen: Callable[[str], None],
    ) -> None:
        self.order = order
        self.given_at = time.monotonic()
        self.task: asyncio.Task[None] | None = None
        self._chassis = chassis
        self._rundir = rundir
        self._view = view
        self._mac, self._addresses = _parse(order)
        self._flows: dict[tuple[int, int, bytes], Address] = {}
        self._claimed = asyncio.Event()
        self._announced_at: float | None = None
        self._reason = "waiting for the port's flows"
        self._claim_seen = claim_seen
        self.watching = False
        """All flows that were there have been seen, and every change is."""
        self.frames_sent = 0

    def status(self) -> AnnounceStatus:
        """The answer to a question about this announcement."""
        state = AnnounceState.ARMED if self._announced_at is None else AnnounceState.ANNOUNCED
        reason = self._reason if self._announced_at is None else ""
        return AnnounceStatus(self.order.id, state, self._announced_at, reason)

    @property
    def resident(self) -> bool:
        """The port is claimed here and its flows are in."""
        return bool(self._flows)

    async def run(self) -> None:
        """Watch and announce; mends broken connections. Ends only when cancelled."""
        while True:
            try:
                await self._connected()
            except (OpenFlowError, LookupError) as error:
                self._complain(str(error))
            except BaseExceptionGroup as several:
                errors, rest = several.split((OpenFlowError, LookupError))
                if rest is not None:
                    raise
                self._complain("; ".join(map(str, errors.exceptions)) if errors else "")
            await asyncio.sleep(RETRY_S)

    def _complain(self, reason: str) -> None:
        if reason != self._reason:
            _log.warning("announcement %s: %s", self.order.id, reason)
        self._reason = reason

    async def _connected(self) -> None:
        """Both connections are made before the claim: afterwards every millisecond is traffic lost."""
        view = self._view()
        integration = ovs.integration_bridge(view, self._chassis)
        provider, _ = ovs.patch_port(view, self._chassis, self.order.localnet_port)
        async with AsyncExitStack() as stack:
            watched = await stack.enter_async_context(
                switch.connect(ovs.management_socket(self._rundir, integration))
            )
            out = await stack.enter_async_context(
                switch.connect(ovs.management_socket(self._rundir, provider))
            )
            self._flows.clear()
            self._claimed.clear()
            await watched.monitor(self._addresses)
            self._reason = "waiting for the port's flows"
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(watched.run(self._note))
                    group.create_task(out.run())
                    group.create_task(self._announce(out))
                    await watched.barrier()
                    self.watching = True
            finally:
                self.watching = False

    def _note(self, update: FlowUpdate) -> None:
        """A flow that translates back came or went. The first one of an address means: claimed here."""
        if update.event is FlowEvent.REMOVED or not update.unsnat:
            self._flows.pop(update.key, None)
        elif update.destination is not None:
            if update.destination not in self._flows.values():
                self._claimed.set()
                self._claim_seen(self.order.udn)
            self._flows[update.key] = update.destination

    async def _announce(self, out: Switch) -> None:
        while True:
            await self._claimed.wait()
            self._claimed.clear()
            began = time.monotonic()
            for at_s in REPEATS_S:
                if at_s and await self._claimed_within(began + at_s - time.monotonic()):
                    break  # more flows came in: begin anew with them
                if not await self._burst(out):
                    break
                if not at_s:
                    self._announced_at = time.time()

    async def _claimed_within(self, time_s: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, time_s)):
                await self._claimed.wait()
        except TimeoutError:
            return False
        return True

    async def _burst(self, out: Switch) -> bool:
        """Send all frames once; False when the port is no longer here."""
        resident = tuple(one for one in self._addresses if one in self._flows.values())
        if not resident:
            return False
        # Looked up each time: ovn-controller may have made the patch port anew.
        _, patch = ovs.patch_port(self._view(), self._chassis, self.order.localnet_port)
        frames = packets.announcement(self._mac, resident, self.order.vlan)
        await out.send(patch.ofport, frames)
        self.frames_sent += len(frames)
        return True


class Announcements:
    """All armed announcements of this agent. ``spawn`` starts a task that lives as long as the agent."""

    def __init__(
        self,
        chassis: str,
        rundir: Path,
        view: Callable[[], LocalView],
        fence: Fence,
        spawn: Spawn,
        claim_seen: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._chassis = chassis
        self._rundir = rundir
        self._view = view
        self._fence = fence
        self._spawn = spawn
        self._claim_seen = claim_seen
        self._armed: dict[str, Armed] = {}

    @property
    def frames_sent(self) -> int:
        """Frames sent by the announcements armed now."""
        return sum(armed.frames_sent for armed in self._armed.values())

    def __len__(self) -> int:
        return len(self._armed)

    def held(self) -> tuple[HeldOrder, ...]:
        """The orders behind them: each is watched for until it is disarmed."""
        now = time.monotonic()
        return tuple(
            HeldOrder(
                kind=OrderKind.ANNOUNCEMENT,
                id=one.order.id,
                udn=one.order.udn,
                epoch=one.order.epoch,
                age_s=now - one.given_at,
                migration=one.order.migration,
                deployment=one.order.deployment,
            )
            for one in self._armed.values()
        )

    def resident(self, udn: str) -> bool | None:
        """Whether a UDN's gateway is here; ``None`` while nothing armed for it can tell."""
        armed = [one for one in self._armed.values() if one.order.udn == udn]
        if any(one.resident for one in armed):
            return True
        return False if any(one.watching for one in armed) else None

    async def arm(self, order: AnnounceOrder) -> AnnounceStatus:
        """Arm, or answer about what is armed under that id; another order under it replaces the old one.

        Raises BadOrder, and StaleEpoch for an order of a superseded epoch.
        """
        known = self._armed.get(order.id)
        if known is not None and known.order.same_work(order):
            return known.status()
        armed = Armed(order, self._chassis, self._rundir, self._view, self._claim_seen)
        self._fence.pass_through(order.udn, order.epoch, "an order")
        if known is None and len(self._armed) >= MAX_ARMED:
            raise BadOrder(f"{MAX_ARMED} announcements are armed already: disarm some first")
        await self.disarm(order.id)
        self._armed[order.id] = armed
        armed.task = self._spawn(armed.run())
        return armed.status()

    def status(self, announce_id: str) -> AnnounceStatus | None:
        """None: unknown here."""
        armed = self._armed.get(announce_id)
        return armed.status() if armed else None

    async def disarm(self, announce_id: str) -> None:
        """Stop watching; not an error when unknown."""
        armed = self._armed.pop(announce_id, None)
        if armed is not None and armed.task is not None:
            armed.task.cancel()
            await asyncio.wait([armed.task])


def _parse(order: AnnounceOrder) -> tuple[bytes, tuple[Address, ...]]:
    try:
        mac = packets.parse_mac(order.mac)
        addresses = tuple(ip_address(text) for text in order.addresses)
    except ValueError as error:
        raise BadOrder(str(error)) from None
    if not addresses:
        raise BadOrder("no addresses: there is nothing by which to see the claim")
    if order.vlan is not None and not 0 <= order.vlan <= _MAX_VLAN:
        raise BadOrder(f"VLAN {order.vlan} is not between 0 and {_MAX_VLAN}")
    return mac, addresses
