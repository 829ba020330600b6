"""The command daemon of the guest: runs programs, and opens connections, in a node's network namespace.

It listens on the link to the host (or on a UNIX socket for the host backend) and speaks the frames of
`devenv.host.wire`. A node is a network namespace in /run/netns; when /run/ovnmig/nodes/NODE.env exists, its
KEY=VALUE lines join the environment of everything run in that node. `guest` is the root namespace.

Requests:
- run: argv, node, env, cwd, timeout_s, stdin (whether STDIN frames follow)
- connect: node, host, port; answers READY and then carries raw bytes
- ping: answers EXIT with the uptime
- poweroff: answers EXIT and ends the daemon; the init script then powers off
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import shlex
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from devenv.guest.execproc import Program
from devenv.host import wire

NETNS_DIR = Path("/run/netns")
NODES_DIR = Path("/run/ovnmig/nodes")
CLONE_NEWNET = 0x40000000
ROOT_NODE = "guest"
PIPE_GRACE_S = 0.5
BAD_REQUEST_CODE = 125
NOT_FOUND_CODE = 127


class RequestError(Exception):
    """The request cannot be carried out; the text goes to the caller."""


def node_environment(node: str | None) -> dict[str, str]:
    """Returns the environment of programs run in the node: ours, the base one, the node's own file."""
    env = dict(os.environ)
    if node is None:
        return env
    env["OVNMIG_NODE"] = node
    path = NODES_DIR / f"{node}.env"
    if path.exists():
        for word in shlex.split(path.read_text(), comments=True):
            key, separator, value = word.partition("=")
            if separator:
                env[key] = value
    return env


def namespace_of(node: str | None) -> Path | None:
    """Returns the namespace file of a node, None for the root one; raises RequestError for a name unknown."""
    if node is None or node == ROOT_NODE:
        return None
    path = NETNS_DIR / node
    if "/" in node or node in (".", "..") or not path.exists():
        names = sorted(entry.name for entry in NETNS_DIR.iterdir()) if NETNS_DIR.is_dir() else []
        known = ", ".join([ROOT_NODE, *names])
        raise RequestError(f"no node or namespace is named '{node}'; there are: {known}")
    return path


def socket_in(namespace: Path | None, family: int) -> socket.socket:
    """Returns a socket that belongs to a namespace: a socket stays in the one it was made in."""
    if namespace is None:
        return socket.socket(family, socket.SOCK_STREAM)
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as here, open(namespace, "rb") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace.name}")
        try:
            return socket.socket(family, socket.SOCK_STREAM)
        finally:
            if libc.setns(here.fileno(), CLONE_NEWNET) != 0:
                sys.exit("execd: cannot return to the root namespace")


async def read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind, length = wire.unpack_header(await reader.readexactly(wire.HEADER.size))
    return kind, await reader.readexactly(length)


async def pump_output(
    source: asyncio.StreamReader, kind: bytes, writer: asyncio.StreamWriter, lock: asyncio.Lock
) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await source.read(wire.CHUNK):
            async with lock:
                writer.write(wire.pack(kind, chunk))
                await writer.drain()


async def pump_input(reader: asyncio.StreamReader, program: Program) -> None:
    """Feeds STDIN frames to the program; returns when the caller has gone away."""
    while True:
        try:
            kind, payload = await read_frame(reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        if kind != wire.STDIN or program.stdin is None:
            continue
        with contextlib.suppress(ConnectionError):
            if payload:
                program.stdin.write(payload)
                await program.stdin.drain()
            else:
                program.stdin.close()


async def start(request: dict[str, Any]) -> Program:
    """Starts the program of a run request; raises RequestError when that cannot be."""
    node: str | None = request.get("node")
    argv: list[str] = list(request.get("argv") or [])
    if not argv:
        raise RequestError("the command is empty")
    namespace = namespace_of(node)
    if namespace is not None:
        argv = ["ip", "netns", "exec", namespace.name, *argv]
    env = node_environment(node) | dict(request.get("env") or {})
    cwd = request.get("cwd") or os.environ.get("HOME") or "/"
    try:
        return await Program.start(argv, env=env, cwd=cwd, with_stdin=bool(request.get("stdin")))
    except OSError as error:
        raise RequestError(f"cannot run {argv[0]}: {error}") from error


async def run(request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Runs one program, streams what it says, ends with its exit code."""
    program = await start(request)
    lock = asyncio.Lock()
    timed_out = False
    async with asyncio.TaskGroup() as group:
        outputs = [
            group.create_task(pump_output(program.stdout, wire.STDOUT, writer, lock)),
            group.create_task(pump_output(program.stderr, wire.STDERR, writer, lock)),
        ]
        caller = group.create_task(pump_input(reader, program))
        ended = group.create_task(program.wait())
        try:
            done, _ = await asyncio.wait(
                {ended, caller}, timeout=request.get("timeout_s"), return_when=asyncio.FIRST_COMPLETED
            )
            if ended not in done:
                timed_out = not done
                await program.end()
            # A daemon that the program left behind may hold the pipes: what it says later is nobody's.
            await asyncio.wait(outputs, timeout=PIPE_GRACE_S)
        finally:
            for task in (*outputs, caller, ended):
                task.cancel()
            if program.returncode is None:
                program.signal_group(signal.SIGKILL)
            program.close()
    writer.write(wire.pack_json(wire.EXIT, {"code": program.returncode, "timed_out": timed_out}))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies bytes until the source ends, then says so to the sink."""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(wire.CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def connect(
    request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Opens a connection from inside a node and carries raw bytes over it."""
    host, port = str(request.get("host") or "127.0.0.1"), int(request["port"])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    far_socket = socket_in(namespace_of(request.get("node")), family)
    far_socket.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(far_socket, (host, port))
    except OSError as error:
        far_socket.close()
        raise RequestError(f"nothing answers at {host} port {port}: {error}") from error
    far_reader, far_writer = await asyncio.open_connection(sock=far_socket)
    writer.write(wire.pack(wire.READY))
    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
    far_writer.close()


def uptime_s() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stop: asyncio.Event) -> None:
    """Serves one connection: one request."""
    try:
        kind, payload = await read_frame(reader)
        request = wire.parse_json(payload)
        operation = request.get("op") if kind == wire.REQUEST else None
        if operation == "run":
            await run(request, reader, writer)
        elif operation == "connect":
            await connect(request, reader, writer)
        elif operation == "ping":
            writer.write(wire.pack_json(wire.EXIT, {"code": 0, "uptime_s": uptime_s()}))
        elif operation == "poweroff":
            writer.write(wire.pack_json(wire.EXIT, {"code": 0}))
            stop.set()
        else:
            raise RequestError(f"unknown request {operation!r}")
    except (RequestError, wire.WireError, OSError, KeyError, ValueError) as error:
        code = NOT_FOUND_CODE if "No such file" in str(error) else BAD_REQUEST_CODE
        with contextlib.suppress(ConnectionError):
            writer.write(wire.pack_json(wire.EXIT, {"code": code, "error": str(error)}))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()


async def serve(listen: str) -> None:
    """Serves until a poweroff request. `listen` is HOST:PORT, or the path of a UNIX socket."""
    stop = asyncio.Event()

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handle(reader, writer, stop)

    if "/" in listen:
        server = await asyncio.start_unix_server(on_connection, listen)
    else:
        host, _, port = listen.rpartition(":")
        server = await asyncio.start_server(on_connection, host, int(port))
    async with server:
        print(f"execd: listening on {listen}", flush=True)
        await stop.wait()
        await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--listen", required=True, help="HOST:PORT or the path of a UNIX socket")
    asyncio.run(serve(parser.parse_args().listen))


if __name__ == "__main__":
    main()
