"""``ovnmig gateway``: show, move."""

from __future__ import annotations

from typing import Annotated

import typer

from ovnmig.cli.client import segment
from ovnmig.cli.migrate import (
    InterruptionOption,
    KeyOption,
    TimeoutOption,
    UntilOption,
    finish,
    show_migration,
)
from ovnmig.cli.options import DEFAULT_URL, JsonOption, UdnArgument, UrlOption, api
from ovnmig.cli.output import pairs, print_json, say
from ovnmig.cli.waiting import Until
from ovnmig.core.migration import OVERLAP_S

app = typer.Typer(no_args_is_help=True)


@app.command("show")
def show(udn: UdnArgument, json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Who owns the gateway now, and who would take over."""
    with api(url) as service:
        answer = service.get(f"/v1/udns/{segment(udn)}/gateway")
    if json_out:
        print_json(answer)
        return
    pairs(
        [
            ("udn", answer["udn"]),
            ("owner", answer["owner"] or "not claimed yet"),
            ("vips", answer["vips"]),
            ("router", answer["router"]),
            ("HA set", [f"{m['chassis']} (priority {m['priority']})" for m in answer["members"]]),
            ("protected", answer["protected"]),
            ("migration", answer["migration"]),
        ]
    )


@app.command("move")
def move(
    udn: UdnArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Chassis to go to, by system-id.")],
    overlap_s: Annotated[
        float, typer.Option("--overlap-s", help="Seconds both nodes keep the sessions.")
    ] = OVERLAP_S,
    allow_interruption: InterruptionOption = False,
    idempotency_key: KeyOption = None,
    wait_for_it: Annotated[bool, typer.Option("--wait", help="Wait and show progress.")] = False,
    until: UntilOption = Until.COMPLETED,
    timeout_s: TimeoutOption = 900.0,
    json_out: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Move the gateway to another chassis, sessions included."""
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    body = {"target": target, "overlap_s": overlap_s, "allow_interruption": allow_interruption}
    with api(url) as service:
        answer = service.call("PUT", f"/v1/udns/{segment(udn)}/gateway", body=body, headers=headers)
    if wait_for_it:
        say(f"migration {answer['id']}")
        finish(url, answer, until=until, timeout_s=timeout_s, json_out=json_out)
    elif json_out:
        print_json(answer)
    else:
        show_migration(answer)
