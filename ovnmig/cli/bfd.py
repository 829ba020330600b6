"""``ovnmig bfd``: show, set."""

from __future__ import annotations

from typing import Annotated

import typer

from ovnmig.cli.client import Document
from ovnmig.cli.options import DEFAULT_URL, JsonOption, UrlOption, api
from ovnmig.cli.output import pairs, print_json

app = typer.Typer(no_args_is_help=True)


def _show(answer: Document, *, json_out: bool) -> None:
    if json_out:
        print_json(answer)
        return
    fields = (("min rx ms", "min_rx_ms"), ("min tx ms", "min_tx_ms"), ("mult", "mult"))
    values = [(label, "OVN's own" if answer[name] is None else str(answer[name])) for label, name in fields]
    pairs([("profile", answer["profile"]), *values])


@app.command("show")
def show(json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """The BFD intervals between gateway candidates."""
    with api(url) as service:
        answer = service.get("/v1/bfd")
    _show(answer, json_out=json_out)


@app.command("set")
def change(
    profile: Annotated[str, typer.Option("--profile", help="fast (about 0.6 s) or default (OVN's own).")],
    json_out: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Set them, for every gateway on this OVN."""
    with api(url) as service:
        answer = service.call("PUT", "/v1/bfd", body={"profile": profile})
    _show(answer, json_out=json_out)
