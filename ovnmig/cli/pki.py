"""``ovnmig pki``: a small CA for sandboxes and small deployments."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Annotated

import typer

from ovnmig.cli.exits import CliError, Exit

app = typer.Typer(no_args_is_help=True)

DirectoryOption = Annotated[
    Path, typer.Option("--dir", envvar="OVNMIG_PKI_DIR", help="Where the files are.", show_default=True)
]
DEFAULT_DIRECTORY = Path("/etc/ovnmig/pki")


def _addresses(texts: list[str] | None) -> list[IPv4Address | IPv6Address]:
    try:
        return [ip_address(text) for text in texts or []]
    except ValueError as error:
        raise CliError(str(error), code=Exit.USAGE) from None


@app.command("init")
def init(directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Make the CA: ca.crt and ca.key. Existing files are never overwritten."""
    from ovnmig.pki import PkiError, init_ca

    try:
        init_ca(directory)
    except (PkiError, OSError) as error:
        raise CliError(str(error)) from None
    typer.echo(f"{directory / 'ca.crt'}\n{directory / 'ca.key'}")


@app.command("issue")
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Chassis system-id, or the controller's name.")],
    controller: Annotated[
        bool, typer.Option("--controller", help="For a controller, not a chassis.")
    ] = False,
    address: Annotated[
        list[str] | None, typer.Option("--address", help="IP address (repeat); for people.")
    ] = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Make NAME.crt and NAME.key, signed by the CA. Copy them and ca.crt to the node that needs them."""
    from ovnmig.pki import Identity, PkiError, Role, issue

    identity = Identity(Role.CONTROLLER if controller else Role.CHASSIS, name)
    try:
        files = issue(directory, identity, _addresses(address))
    except (PkiError, OSError) as error:
        raise CliError(str(error)) from None
    typer.echo(f"{files.certificate}\n{files.key}")
