"""``ovnmig node``: chassis and their agents."""

from __future__ import annotations

import typer

from ovnmig.cli.client import Document
from ovnmig.cli.options import DEFAULT_URL, JsonOption, UrlOption, api
from ovnmig.cli.output import print_json, table

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


def node_rows(nodes: list[Document]) -> None:
    """The table of nodes."""
    table(
        ["CHASSIS", "ENCAP", "NETWORKS", "GATEWAYS", "AGENT", "ENTRIES", "PROBLEMS"],
        (
            (
                n["chassis"],
                n["encap_ips"],
                n["physical_networks"],
                n["gateways"],
                n["agent_version"] if n["agent_up"] else "none",
                f"{n['agent_entries']}/{n['agent_entries_max']}" if n["agent_up"] else None,
                n["agent_problems"] if n["agent_up"] else n["agent_problem"],
            )
            for n in nodes
        ),
        empty="no chassis in the Southbound database",
    )


@app.command("list")
def list_nodes(json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """All chassis with what their agents say."""
    with api(url) as service:
        answer = service.get("/v1/nodes")
    if json_out:
        print_json(answer)
    else:
        node_rows(answer["nodes"])
