"""``ovnmig serve``, ``agent`` and ``contract``: the parts that are not clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovnmig.cli.exits import CliError, Exit


def serve() -> None:
    """Run the controller and its REST service. Settings come from OVNMIG_* variables (docs/settings.md)."""
    from ovnmig import wiring

    try:
        wiring.run_service()
    except wiring.StartRefused as error:
        raise CliError(error.message, code=Exit.REFUSED, details=error.details) from None


def agent() -> None:
    """Run the node helper. Settings come from OVNMIG_AGENT_* variables (docs/settings.md)."""
    from ovnmig import wiring

    try:
        wiring.run_agent()
    except wiring.StartRefused as error:
        raise CliError(error.message, code=Exit.REFUSED, details=error.details) from None


def contract(
    directory: Annotated[Path, typer.Option("--directory", help="Root of the repository.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where files differ.")] = False,
) -> None:
    """Write api/, schemas/ and docs/settings.md anew from the code."""
    from ovnmig.contract import differences, write

    if check:
        found = differences(directory)
        if found:
            raise CliError("the contract differs from the code; run 'ovnmig contract'", details=found)
        return
    for path in write(directory):
        typer.echo(path)


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command("serve")(serve)
    app.command("agent")(agent)
    app.command("contract")(contract)
