"""One agent of a measurement: the stream code of ``ovnmig agent`` in a namespace, driven line by line.

    python -m tests.bench.agent_side source|sink CHASSIS NAMESPACE PKI-DIRECTORY

Everything that an agent loads is loaded, so its memory is an agent's; the local database is a constant.
Commands come as JSON lines on standard input, each is answered with one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import ovnmig.agent.main  # noqa: F401  # for its memory: the control API and the database client
from ovnmig.agent.localdb import Bridge, LocalView
from ovnmig.agent.store import Copies, Fence
from ovnmig.agent.stream import StreamServer
from ovnmig.agent.transfers import OrderRefused, Transfers
from ovnmig.conntrack import ensure_events
from ovnmig.core.transfer import Peer, TransferOrder, TransferState, ZoneKind, ZoneRef
from ovnmig.pki import KeyFiles
from tests.bench.conntrack import ZONE_A, ZONE_B
from tests.bench.places import TARGET_ADDRESS, peak_mib

PORT = 8789
SNAT = ZoneRef(ZoneKind.SNAT, "gateway")
WARM = ZoneRef(ZoneKind.PORT, "warm")
_CLONE_NEWNET = 0x40000000
_LIMIT_S = 240.0
_LOOK_S = 0.005


def view(role: str) -> LocalView:
    """The local database: each side has numbers of its own."""
    numbers = (ZONE_A, ZONE_A + 1) if role == "source" else (ZONE_B, ZONE_B + 1)
    keys = {"ct-zone-gateway_snat": str(numbers[0]), "ct-zone-warm": str(numbers[1])}
    return LocalView(True, {}, "", {"br-int": Bridge("br-int", keys, ())})


def usage() -> dict[str, Any]:
    """CPU seconds since the start and peak memory."""
    return {"cpu_s": time.process_time(), "peak_mib": peak_mib()}


class Source:
    """Orders to the sending side."""

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Follows one command; the answer's wall_s is the time that the agent took."""
        name, before, start = command["name"], time.process_time(), time.perf_counter()
        if command["do"] == "end":
            await self._transfers.end(name)
        elif command["do"] == "final":
            with contextlib.suppress(OrderRefused):  # the state in the answer tells of it
                await self._transfers.finish(name)
        else:
            zone = WARM if name == "warm" else SNAT
            order = TransferOrder(name, name, 1, Peer("b", TARGET_ADDRESS, PORT), (zone,))
            self._transfers.start(order)
            until = start + _LIMIT_S
            while (status := self._transfers.status(name)) is not None and time.perf_counter() < until:
                if status.state in (TransferState.IN_STEP, TransferState.FAILED):
                    break
                await asyncio.sleep(_LOOK_S)
        wall, cpu = time.perf_counter() - start, time.process_time() - before
        status = self._transfers.status(name)
        counts = status.counts if status else None
        return {
            "wall_s": wall,
            "spent_s": cpu,
            "state": status.state.value if status else "ended",
            "reason": status.reason if status else "",
            "applied": counts.created + counts.identical + counts.replaced if counts else 0,
        }


async def serve(role: str, chassis: str, pki_dir: Path) -> None:
    """Until standard input ends."""
    files = KeyFiles.of(pki_dir, chassis)
    local = view(role)
    copies = Copies()
    async with contextlib.AsyncExitStack() as stack:
        source: Source | None = None
        group = await stack.enter_async_context(asyncio.TaskGroup())
        if role == "sink":
            server = StreamServer(files, chassis, lambda: local, copies, Fence())
            await stack.enter_async_context(server.listening(TARGET_ADDRESS, PORT))
        else:
            source = Source(
                Transfers(
                    chassis, files, lambda: local, copies, Fence(), lambda work: group.create_task(work)
                )
            )
        print(json.dumps({"ready": True}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            answer = await source.obey(command) if source and command["do"] != "usage" else {}
            print(json.dumps(answer | usage()), flush=True)


def main() -> None:
    """Enters the namespace before any thread is made, then serves."""
    role, chassis, space, pki_dir = sys.argv[1:]
    logging.basicConfig(level=logging.WARNING)
    handle = os.open(f"/run/netns/{space}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter {space}")
    ensure_events()
    asyncio.run(serve(role, chassis, Path(pki_dir)))


if __name__ == "__main__":
    main()
