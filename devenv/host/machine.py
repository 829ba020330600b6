"""Starts and ends a sandbox: its run folder, its listening sockets, its first process."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from devenv.host import backend, rootfs, state
from devenv.host.channel import Channel
from devenv.host.errors import EXIT_CRASHED, ChannelError, SandboxError
from devenv.host.images import Images
from devenv.host.keeper import Settings
from devenv.host.options import Options
from devenv.host.paths import OUT, REPO, cache_dir, run_dir
from devenv.host.state import State
from devenv.host.store import Store

BOOT_TIMEOUT_S = 60.0
POWER_OFF_TIMEOUT_S = 10.0
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Keeps two callers from starting or ending the same sandbox at once."""
    with Store(cache_dir()).locked(f"run-{name}"):
        yield


def listen_rest(port: int) -> socket.socket:
    """Opens the REST relay's port on the loopback; raises SandboxError when it is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
        sock.listen(64)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise SandboxError(
                f"port {port} of 127.0.0.1 is taken", hint="choose another one with --port"
            ) from error
        raise SandboxError(f"port {port} of 127.0.0.1 cannot be opened: {error}") from error
    return sock


def listen_channel(folder: Path) -> socket.socket:
    """Opens the command channel's socket in the run folder (whose path may be long)."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        sock.bind(f"/proc/self/fd/{handle}/channel.sock")
    finally:
        os.close(handle)
    sock.listen(64)
    return sock


def start(options: Options, images: Images, chosen: str) -> State:
    """Boots a sandbox and returns when it takes commands; raises SandboxError with the cause otherwise."""
    folder = run_dir(options.name)
    folder.mkdir(parents=True)
    OUT.mkdir(exist_ok=True)
    versions = rootfs.versions(images.rootfs)
    try:
        with listen_rest(options.port) as rest, listen_channel(folder) as channel:
            settings = Settings(
                backend=chosen,
                kernel=str(images.kernel or ""),
                rootfs=str(images.rootfs),
                venv=str(images.venv),
                source=str(REPO),
                out=str(OUT),
                run_dir=str(folder),
                memory_mb=options.memory_mb,
                vms=str(images.vms or ""),
            )
            process = spawn(settings, channel, rest)
        begun = state.process_start(process.pid)
        current = State(
            name=options.name,
            backend=chosen,
            suite=options.suite,
            ovn=versions["ovn-common"].split("-")[0],
            kernel="",
            chassis=options.chassis,
            gateways=options.gateways,
            port=options.port,
            memory_mb=options.memory_mb,
            pid=process.pid,
            pid_start=begun or 0,
            vm=options.vm,
        )
        current.save()
        wait_for_commands(process, folder, Channel.of(options.name))
    except BaseException:
        stop(options.name)
        raise
    return current


def spawn(settings: Settings, channel: socket.socket, rest: socket.socket) -> subprocess.Popen[bytes]:
    """Starts the keeper as the first process of new namespaces."""
    command = ["unshare", *NAMESPACES, sys.executable, "-m", "devenv.host.keeper"]
    command += ["--settings", json.dumps(asdict(settings))]
    command += ["--channel-fd", str(channel.fileno()), "--rest-fd", str(rest.fileno())]
    with open(Path(settings.run_dir, "keeper.log"), "wb") as log:
        return subprocess.Popen(
            command,
            pass_fds=(channel.fileno(), rest.fileno()),
            env=dict(os.environ) | {"PYTHONPATH": str(REPO), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )


def wait_for_commands(process: subprocess.Popen[bytes], folder: Path, channel: Channel) -> None:
    """Returns when the guest answers; raises SandboxError with its last words when it never does."""
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SandboxError(f"the sandbox ended while it booted:\n{last_words(folder)}", code=EXIT_CRASHED)
        with contextlib.suppress(ChannelError):
            channel.ping(timeout_s=2)
            return
        time.sleep(0.05)
    raise SandboxError(f"the sandbox does not answer after {BOOT_TIMEOUT_S:.0f} s:\n{last_words(folder)}")


def last_words(folder: Path, lines: int = 15) -> str:
    """Returns the end of what console and keeper of a sandbox said."""
    told: list[str] = []
    for name in ("console.log", "keeper.log", "ended"):
        with contextlib.suppress(OSError):
            told += (folder / name).read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in told)


def stop(name: str) -> bool:
    """Ends a sandbox, running, crashed or half-started; returns False when there was none.

    The process ends with everything in its namespaces, and these vanish with it.
    """
    folder = run_dir(name)
    if not folder.exists():
        return False
    current = state.load(name)
    if current and current.alive() and not (powered_off(name) and ended(current, POWER_OFF_TIMEOUT_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(current.pid, signal.SIGKILL)
        if not ended(current, POWER_OFF_TIMEOUT_S):
            raise SandboxError(f"process {current.pid} of the sandbox does not end")
    shutil.rmtree(folder)
    return True


def powered_off(name: str) -> bool:
    """Asks the guest to power off; returns False when it does not take commands (any more)."""
    try:
        Channel.of(name).power_off()
    except ChannelError:
        return False
    return True


def ended(current: State, timeout_s: float) -> bool:
    """Waits until the first process of a sandbox is gone."""
    deadline = time.monotonic() + timeout_s
    while current.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(current.pid, os.WNOHANG)
    return True


def chosen_backend(options: Options) -> str:
    """Returns the backend for what was asked."""
    return backend.choose(options.backend)
