"""The command tree, and the one place where errors become exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from ovnmig import __version__
from ovnmig.cli import bfd, gateway, migrate, node, overview, pki, programs, udn
from ovnmig.cli.exits import CliError, Exit
from ovnmig.cli.output import print_json, say_error

EPILOG = (
    "Exit codes: 0 ok, 1 refused or failed, 2 wrong usage, 3 not found, 4 conflict, 5 service, database or"
    " agent unreachable, 6 waited long enough (it goes on). 'doctor': 0 all well, 1 problems, 2 cannot reach."
)

app = typer.Typer(
    name="ovnmig",
    help="Keep the sessions of VMs on OVN layer-2 UDNs alive across live migration.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ovnmig {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


programs.register(app)
overview.register(app)
app.add_typer(udn.app, name="udn", help="UDNs: the gateway, its VIPs and its HA set.")
app.add_typer(migrate.app, name="migrate", help="Migrations: start, watch, switch, cancel.")
app.add_typer(gateway.app, name="gateway", help="Who owns a UDN's gateway; move it by hand.")
app.add_typer(bfd.app, name="bfd", help="How fast OVN notices a dead gateway node.")
app.add_typer(node.app, name="node", help="Chassis and their agents.")
app.add_typer(pki.app, name="pki", help="A small CA for agents and controllers.")


def invoke(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    try:
        app(arguments)
    except CliError as error:
        if "--json" in arguments:
            print_json(error.document())
        say_error(error.message, error.details)
        return int(error.code)
    except KeyboardInterrupt:
        say_error("interrupted; what was started goes on ('ovnmig status')")
        return 130
    except BrokenPipeError:
        return int(Exit.OK)  # the reader (head, less) has seen enough
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0
    return int(Exit.OK)
