"""Errors of the sandbox: what happened, what to do, and the exit code."""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_RUNNING = 3
EXIT_CRASHED = 4
EXIT_NOT_READY = 5


class SandboxError(Exception):
    """Something a person can act on. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "", code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class ChannelError(SandboxError):
    """The sandbox does not answer, or it refused a call."""
