"""What an agent does the moment a gateway port is claimed here: young sessions become usable.

An entry that is known from its birth alone says SYN_SENT, and the kernel would judge the next packet of its
session invalid. The source's next dump would tell its state: after a crash there will be none, and after the
last difference of a move it comes too late for sessions that open at that moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ovnmig.agent import zones
from ovnmig.agent.localdb import LocalView
from ovnmig.agent.store import Copies, split_known
from ovnmig.agent.worker import Worker
from ovnmig.conntrack import Ledger, NetlinkError, promote, read_zone
from ovnmig.core.transfer import ZoneRef

_log = logging.getLogger(__name__)


class Takeover:
    """Makes copies of opening sessions established, on a claim of a gateway whose entries came here."""

    def __init__(
        self,
        chassis: str,
        view: Callable[[], LocalView],
        copies: Copies,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._chassis = chassis
        self._view = view
        self._copies = copies
        self._spawn = spawn

    def claimed(self, udn: str) -> None:
        """A UDN's gateway was claimed here just now."""
        if self._copies.kept(udn):
            self._spawn(self._promote(udn))

    async def _promote(self, udn: str) -> None:
        try:
            async with Worker("takeover") as worker:
                for ref in self._copies.kept(udn):
                    done = await worker.run(self._zone, worker, udn, ref)
                    if done:
                        _log.info("%d young sessions of UDN %r are taken for established", done, udn)
        except (NetlinkError, OSError) as error:
            _log.error("young sessions of UDN %r could not be made usable: %s", udn, error)

    def _zone(self, worker: Worker, udn: str, ref: ZoneRef) -> int:
        number = zones.number(self._view(), self._chassis, ref)
        if number is None:
            return 0
        with self._copies.lock(udn):
            ours, _ = split_known(
                self._copies.of(udn, ref.key), read_zone(worker.socket, number, worker.transformer)
            )
            now = Ledger()
            now.record(ours)
            young = now.compare(promote(ours), whole=False).changed
            return worker.applier.apply(young, number).applied
