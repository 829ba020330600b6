"""Keeps one sandbox alive: its private namespaces, the guest kernel, and the relays into it.

`machine.start` runs this as the first process of new mount, network and process namespaces. When it ends, for
whatever reason, the kernel ends everything else in them and removes them: nothing has to be cleaned up.
The two listening sockets come from outside (REST relay on the host's loopback, command channel).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from devenv.host import wire
from devenv.host.errors import EXIT_FAILED
from devenv.host.stage import LINK_GUEST, Stage, StageError, lay_stage

CHANNEL_PORT = 7000
# The cluster forwards the guest's own loopback to the one of its central node.
REST_NODE = "guest"
REST_PORT = 8787
POWER_OFF_S = 5.0


@dataclass(frozen=True)
class Settings:
    """What a sandbox is made of. Paths are the host's."""

    backend: str
    kernel: str
    rootfs: str
    venv: str
    source: str
    out: str
    run_dir: str
    memory_mb: int
    vms: str = ""
    """The layer for QEMU virtual machines; empty without one."""

    @classmethod
    def parse(cls, text: str) -> Settings:
        return cls(**json.loads(text))


def guest_command(settings: Settings, stage: Stage) -> list[str]:
    """Returns the command line of the guest's kernel."""
    return [
        str(stage.kernel),
        f"mem={settings.memory_mb}M",
        f"uml_dir={stage.scratch}/uml",
        "umid=sandbox",
        "root=/dev/root",
        "rootfstype=hostfs",
        f"rootflags={stage.rootfs}",
        "ro",
        "init=/src/devenv/guest/init.sh",
        f"HOST_BASE={stage.base}",
        f"GUEST_ADDRESS={LINK_GUEST}/24",
        f"CHANNEL_PORT={CHANNEL_PORT}",
        "vec0:transport=tap,ifname=tap0,depth=64",
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        "quiet",
        "panic=-1",
    ]


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies bytes until the source ends, then says so to the sink."""
    with contextlib.suppress(ConnectionError, OSError):
        while chunk := await reader.read(wire.CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def open_daemon(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to the command daemon: HOST:PORT in the guest, or a UNIX socket with the host backend."""
    if "/" in address:
        return await asyncio.open_unix_connection(address)
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


# A relay that is cut off when the sandbox ends has nothing to report.
CUT_OFF = (OSError, asyncio.IncompleteReadError, asyncio.CancelledError)


async def close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection that may be broken already."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def relay_channel(address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carries one connection of the command channel to the daemon, frames untouched."""
    with contextlib.suppress(*CUT_OFF):
        far_reader, far_writer = await open_daemon(address)
        try:
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        finally:
            await close(far_writer)
    with contextlib.suppress(*CUT_OFF):
        await close(writer)


async def relay_rest(address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carries one connection of the REST relay to the guest's loopback."""
    with contextlib.suppress(*CUT_OFF):
        far_reader, far_writer = await open_daemon(address)
        try:
            request = {"op": "connect", "node": REST_NODE, "host": "127.0.0.1", "port": REST_PORT}
            far_writer.write(wire.pack_json(wire.REQUEST, request))
            kind, length = wire.unpack_header(await far_reader.readexactly(wire.HEADER.size))
            await far_reader.readexactly(length)
            if kind == wire.READY:
                await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        finally:
            await close(far_writer)
    with contextlib.suppress(*CUT_OFF):
        await close(writer)


def write_end(run_dir: str, reason: str) -> None:
    """Leaves the reason of the end for `status`, unless the folder is gone already."""
    with contextlib.suppress(OSError):
        Path(run_dir, "ended").write_text(reason + "\n")


async def keep(
    settings: Settings, stage: Stage, console: BinaryIO, channel: socket.socket, rest: socket.socket
) -> int:
    """Runs the sandbox to its end; returns the exit code of the guest."""
    if settings.backend == "uml":
        command, address = guest_command(settings, stage), f"{LINK_GUEST}:{CHANNEL_PORT}"
    else:
        address = f"{stage.root}/run/execd.sock"
        command = ["chroot", str(stage.root), "/bin/sh", "/src/devenv/guest/init.sh", "host"]
    env = dict(os.environ) | {"TMPDIR": str(stage.scratch)}
    guest = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=console, stderr=console, env=env
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    # start_unix_server looks its file up by name, as Python 3.13 does to unlink it at the end; the
    # name goes through a descriptor of the process that bound it, and means nothing here.
    servers = [
        await asyncio.start_server(functools.partial(relay_channel, address), sock=channel),
        await asyncio.start_server(functools.partial(relay_rest, address), sock=rest),
    ]
    async with asyncio.TaskGroup() as group:
        ended, stopped = group.create_task(guest.wait()), group.create_task(stopping.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            guest.terminate()
        stopped.cancel()
    for server in servers:
        server.close()
    write_end(settings.run_dir, f"the guest ended with {guest.returncode}")
    return guest.returncode or 0


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--settings", required=True, help="JSON of Settings")
    parser.add_argument("--channel-fd", type=int, required=True)
    parser.add_argument("--rest-fd", type=int, required=True)
    arguments = parser.parse_args()
    settings = Settings.parse(arguments.settings)
    channel = socket.socket(fileno=arguments.channel_fd)
    rest = socket.socket(fileno=arguments.rest_fd)
    with open(Path(settings.run_dir, "console.log"), "ab") as console:
        try:
            paths = {
                key: getattr(settings, key) for key in ("kernel", "rootfs", "venv", "source", "out", "vms")
            }
            stage = lay_stage(settings.backend, memory_mb=settings.memory_mb, **paths)
        except StageError as error:
            write_end(settings.run_dir, f"the sandbox could not be set up: {error}")
            return EXIT_FAILED
        return asyncio.run(keep(settings, stage, console, channel, rest))


if __name__ == "__main__":
    sys.exit(main())
