"""The Northbound database as the engine needs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar

from ovnmig.core.rows import Change, Committed, EpochConflict
from ovnmig.core.udn import Problem, Refused
from ovnmig.core.views import NbView
from ovnmig.drivers import ovn_nb_bfd
from ovnmig.drivers import ovn_nb_read as read
from ovnmig.drivers.ovn_nb_write import ApplyChange
from ovnmig.drivers.ovsdb import LiveIdl, OvsdbClient, TlsFiles
from ovnmig.engine.protocols import DatabaseUnavailable

SCHEMA = "OVN_Northbound"
_seen: ContextVar[int] = ContextVar("ovn_nb_seen", default=-1)
"""Per task: the change count of its last view, so that no task misses what happened while it was busy."""


class OvnNorthbound:
    """Reads and writes for one deployment, ``owner``. ``now`` gives Unix seconds; the first epoch of a UDN is
    made of it, so that a UDN deleted and created again never goes back behind an epoch an agent has seen."""

    def __init__(
        self,
        remotes: str,
        *,
        owner: str,
        tls: TlsFiles | None = None,
        timeout_s: float = 10.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._owner = owner
        self._now = now
        self._client = OvsdbClient(remotes, SCHEMA, read.COLUMNS, tls=tls, timeout_s=timeout_s)

    async def start(self) -> None:
        """Connect now instead of at the first call. Raises DatabaseUnavailable; nothing is lost then."""
        await self._client.start()

    async def close(self) -> None:
        """Stop following the database; a held lock is released by the server."""
        await self._client.close()

    async def view(self) -> NbView:
        """All the core needs, at one instant. Raises DatabaseUnavailable."""
        picture, count = await self._client.read(lambda live: (live.picture(self._build), live.changes.count))
        _seen.set(count)
        return picture

    def _build(self, live: LiveIdl) -> NbView:
        return read.view(live, self._owner)

    async def apply(self, change: Change) -> Committed:
        """Make the change in one transaction. Raises EpochConflict, Refused, DatabaseUnavailable."""
        first_epoch = int(self._now() * 1000)
        try:
            done: Committed = await self._client.execute(
                lambda backend: ApplyChange(backend, self._owner, change, first_epoch)
            )
        except (EpochConflict, Refused, DatabaseUnavailable):
            raise
        except RuntimeError as error:
            if change.expected_epoch is None and await self._exists(change.udn):
                # Some index of the rows clashed first; what happened is that the UDN was made meanwhile.
                raise EpochConflict(
                    f"UDN {change.udn!r} was created by somebody else at the same time"
                ) from error
            raise _translated(str(error)) from error
        return done

    async def bfd(self) -> Mapping[str, str]:
        """The BFD intervals as they are set. Raises DatabaseUnavailable."""
        found: Mapping[str, str] = await self._client.read(ovn_nb_bfd.options)
        return found

    async def set_bfd(self, wanted: Mapping[str, str]) -> bool:
        """Set the BFD intervals to exactly these; False: they were so. Raises DatabaseUnavailable."""
        try:
            return bool(await self._client.execute(lambda backend: ovn_nb_bfd.SetBfd(backend, wanted)))
        except RuntimeError as error:
            raise _translated(str(error)) from error

    async def _exists(self, udn: str) -> bool:
        return await self._client.read(lambda live: read.find_record(live, self._owner, udn) is not None)

    async def wait_changed(self, timeout_s: float) -> bool:
        """True when something changed since this task's last view, False at the time-out."""
        seen = _seen.get()
        changes = self._client.changes
        return await changes.wait(changes.count if seen < 0 else seen, timeout_s)

    async def healthy(self) -> str:
        """Empty when connected and in step, else what is wrong, in words."""
        return self._client.problem()

    async def try_lock(self) -> bool:
        """True while this process is the active controller: it holds the OVSDB lock of its deployment."""
        try:
            return await self._client.try_lock(f"ovnmig_{self._owner}")
        except DatabaseUnavailable:
            return False


def _translated(text: str) -> Exception:
    """What an OVSDB error means to the engine."""
    if "database lock" in text:
        return DatabaseUnavailable("this process does not hold the controller lock; another one is active")
    if "timed out" in text:
        return DatabaseUnavailable("the Northbound database did not carry the change out in time")
    if "constraint violation" in text or "referential integrity" in text:
        return Refused(
            (Problem("constraint", f"the Northbound database refused the rows: {text}", None, conflict=True),)
        )
    return DatabaseUnavailable(f"the Northbound database failed: {text}")
