"""The command line: a client of the REST service, and the way to start service and agent."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code (:mod:`ovnmig.cli.exits`). Errors are printed, never raised."""
    from ovnmig.cli.app import invoke

    return invoke(list(arguments))


def main() -> None:
    """Entry point of the ``ovnmig`` program."""
    sys.exit(run(sys.argv[1:]))
