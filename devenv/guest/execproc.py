"""One program run by the command daemon: its pipes as streams, its end as an awaitable.

`asyncio.subprocess` is not used: its `wait` also waits for the pipes, which a daemon that the program left
behind holds open for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

KILL_GRACE_S = 2.0


class Program:
    """A running program in a session of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout = asyncio.StreamReader()
        self.stderr = asyncio.StreamReader()
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, with_stdin: bool
    ) -> Program:
        """Starts a program; raises OSError when that cannot be."""

        def popen() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

        program = cls(await asyncio.to_thread(popen))
        await program._attach()
        return program

    async def _attach(self) -> None:
        process, loop = self._process, asyncio.get_running_loop()
        assert process.stdout is not None
        assert process.stderr is not None
        await self._attach_output(process.stdout, self.stdout)
        await self._attach_output(process.stderr, self.stderr)
        if process.stdin is not None:
            unread = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            transport, _ = await loop.connect_write_pipe(lambda: unread, process.stdin)
            self.stdin = asyncio.StreamWriter(transport, unread, None, loop)
            self._transports.append(transport)

    async def _attach_output(self, pipe: IO[bytes], reader: asyncio.StreamReader) -> None:
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        self._transports.append(transport)

    async def wait(self) -> int:
        """Returns the exit code when the program ends, whoever still holds its pipes."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        handle = os.pidfd_open(self._process.pid)
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
        return self._process.wait()

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def signal_group(self, number: int) -> None:
        """Signals the program and what it started in its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def end(self) -> None:
        """Ends the program and its group: politely first."""
        self.signal_group(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), KILL_GRACE_S)
        self.signal_group(signal.SIGKILL)
        if self.returncode is None:
            await self.wait()

    def close(self) -> None:
        """Closes the pipes on this side."""
        for transport in self._transports:
            transport.close()
