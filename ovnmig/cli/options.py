"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from ovnmig.cli.client import Api

DEFAULT_URL = "http://127.0.0.1:8787"

UrlOption = Annotated[
    str, typer.Option("--url", envvar="OVNMIG_URL", help="Where the service answers.", show_default=True)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the service's answer as JSON.")]
UdnArgument = Annotated[str, typer.Argument(metavar="UDN", help="Name of the UDN.")]
MigrationArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the migration.")]


def api(url: str) -> Api:
    """A client for ``url``."""
    return Api(url)
