"""``ovnmig status``, ``watch`` and ``doctor``."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from ovnmig.cli.client import Api, Document
from ovnmig.cli.diagnosis import Finding, diagnose
from ovnmig.cli.exits import ApiProblem, CliError, Exit, Unreachable
from ovnmig.cli.migrate import migration_rows
from ovnmig.cli.node import node_rows
from ovnmig.cli.options import DEFAULT_URL, JsonOption, UrlOption, api
from ovnmig.cli.output import clock, console, print_json, print_json_line, say
from ovnmig.cli.udn import udn_rows
from ovnmig.cli.waiting import ENDED

RECONNECT_S = 1.0


def status(json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """The service, the UDNs, the nodes and what is in flight."""
    with api(url) as service:
        ready = service.call("GET", "/readyz", accept=(503,))
        answer: Document = {"ready": ready}
        if ready["ready"]:
            answer |= service.get("/v1/udns") | service.get("/v1/nodes") | service.get("/v1/migrations")
    if json_out:
        print_json(answer)
    else:
        out = console()
        out.print(f"service at {url}: {'ready' if ready['ready'] else 'NOT ready'}, {ready['role']}")
        for problem in ready["problems"]:
            out.print(f"  - {problem}")
        if ready["ready"]:
            out.print()
            udn_rows(answer["udns"])
            out.print()
            node_rows(answer["nodes"])
            out.print()
            flying = [m for m in answer["migrations"] if m["phase"] not in ENDED]
            migration_rows(flying, empty="no migration in flight")
    if not ready["ready"]:
        raise typer.Exit(Exit.UNREACHABLE)


def watch(
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="History after this seq first; 0: all.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more.")] = True,
    migration: Annotated[
        str | None, typer.Option("--migration", help="Only events of this migration.")
    ] = None,
    json_out: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Print what happens, a line an event, until interrupted. Reconnects when the service restarts."""
    seen = after
    connected = False
    while True:
        try:
            with api(url) as service:
                for event in service.events(after=seen, follow=follow, migration=migration):
                    seen, connected = int(event["seq"]), True
                    print_json_line(event) if json_out else _print_event(event)
            connected = True
            if follow:
                say("the service ended the stream; trying again")
        except Unreachable as error:
            if not (connected and follow):
                raise
            say(f"{error.message}; trying again")
        if not follow:
            return
        time.sleep(RECONNECT_S)


def _print_event(event: Document) -> None:
    where = " ".join(str(event[k]) for k in ("udn", "migration") if event[k])
    console().print(f"{clock(event['at'])}  {event['kind']}  {where}  {event['message']}", soft_wrap=True)


def doctor(json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Say in words what is wrong. Exits 0: all well, 1: problems found, 2: the service cannot be reached."""
    try:
        with api(url) as service:
            findings = diagnose(**_collect(service))
    except CliError as error:
        if json_out:
            print_json({"reachable": False, "healthy": False, "findings": [], "error": error.message})
        else:
            say(f"cannot look: {error.message}")
            for line in error.details:
                say(f"  - {line}")
        raise typer.Exit(2) from None
    bad = any(f.problem for f in findings)
    if json_out:
        print_json({"reachable": True, "healthy": not bad, "findings": [f.document() for f in findings]})
    else:
        _print_findings(findings)
    if bad:
        raise typer.Exit(1)


def _collect(service: Api) -> dict[str, Any]:
    ready = service.call("GET", "/readyz", accept=(503,))
    found: dict[str, Any] = {"ready": ready, "udns": [], "nodes": [], "migrations": []}
    for name in ("udns", "nodes", "migrations"):
        try:
            found[name] = service.get(f"/v1/{name}")[name]
        except ApiProblem as error:
            if ready["ready"]:
                raise
            ready["problems"].append(f"/v1/{name}: {error.message}")
    return found


def _print_findings(findings: list[Finding]) -> None:
    out = console()
    for finding in findings:
        out.print(f"{'PROBLEM' if finding.problem else 'note'}: {finding.what}", soft_wrap=True)
        if finding.advice:
            out.print(f"    {finding.advice}", soft_wrap=True)
    count = sum(f.problem for f in findings)
    out.print("all is well" if not count else f"{count} problem{'s' if count > 1 else ''}")


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command("status")(status)
    app.command("watch")(watch)
    app.command("doctor")(doctor)
