"""The Southbound database as the engine needs it: what the chassis did. Nothing is ever written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ovnmig.core.views import SbView
from ovnmig.drivers import ovn_sb_read as read
from ovnmig.drivers.ovsdb import OvsdbClient, TlsFiles
from ovnmig.engine.protocols import DatabaseUnavailable

SCHEMA = "OVN_Southbound"
PAUSE_MAX_S = 0.1
"""Under a storm of changes a waiter looks again at most this often, or as often as half of its time
allows."""


class OvnSouthbound:
    """Reads the Southbound database at ``remotes`` (comma separated)."""

    def __init__(self, remotes: str, *, tls: TlsFiles | None = None, timeout_s: float = 10.0) -> None:
        self._client = OvsdbClient(remotes, SCHEMA, read.COLUMNS, tls=tls, timeout_s=timeout_s)

    async def start(self) -> None:
        """Connect now instead of at the first call. Raises DatabaseUnavailable; nothing is lost then."""
        await self._client.start()

    async def close(self) -> None:
        """Stop following the database."""
        await self._client.close()

    async def view(self) -> SbView:
        """All the core needs, at one instant. Raises DatabaseUnavailable."""
        return await self._client.read(lambda live: live.picture(read.view))

    async def wait_until(self, predicate: Callable[[SbView], bool], timeout_s: float) -> bool:
        """Re-evaluate on every change; True as soon as it holds, False at the time-out.

        While the database cannot be read nothing can be seen, so that counts as waiting. Raises what
        ``predicate`` raises.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while True:
            seen = self._client.changes.count
            began = clock()
            try:
                picture = await self._client.read(lambda live: live.picture(read.view), grace_s=0)
            except DatabaseUnavailable:
                picture = None
            if picture is not None and predicate(picture):
                return True
            cost_s = clock() - began
            left_s = deadline - clock()
            if left_s <= 0:
                return False
            if self._client.changes.count != seen:
                await asyncio.sleep(min(cost_s, PAUSE_MAX_S, left_s))
            elif picture is None:
                await asyncio.sleep(min(PAUSE_MAX_S, left_s))
            else:
                await self._client.changes.wait(seen, left_s)

    async def healthy(self) -> str:
        """Empty when connected and in step, else what is wrong, in words."""
        return self._client.problem()
