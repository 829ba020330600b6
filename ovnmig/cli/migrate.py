"""``ovnmig migrate``: start, show, list, switch, cancel, wait."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from ovnmig.cli.client import Document, segment
from ovnmig.cli.options import DEFAULT_URL, JsonOption, MigrationArgument, UdnArgument, UrlOption, api
from ovnmig.cli.output import clock, pairs, print_json, say, table
from ovnmig.cli.waiting import Until, summary, wait
from ovnmig.core.migration import OVERLAP_S

app = typer.Typer(no_args_is_help=True)

UntilOption = Annotated[
    Until, typer.Option("--until", help="How far to wait; 'converging': the target has taken over.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout-s", min=0, help="Seconds to wait; it goes on afterwards.")
]


def _key(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[\x21-\x7e]{1,200}", text):
        raise typer.BadParameter("write 1 to 200 printable ASCII characters without blanks")
    return text


KeyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key", callback=_key, help="Repeating the command with it starts nothing new."
    ),
]

InterruptionOption = Annotated[
    bool, typer.Option("--allow-interruption", help="A lone gateway may be gone for about a second.")
]


def show_migration(now: Document) -> None:
    """A migration for a person."""
    counts = now["counts"]
    spent = {phase: f"  {seconds:.3f} s" for phase, seconds in now["phase_s"].items()}
    phases = [f"{phase} {clock(at)}{spent.get(phase, '')}" for phase, at in now["phase_at"].items()]
    port = f"{now['port']} (was on {now['port_source'] or 'no chassis'})" if now["port"] else "none"
    moved = f"{now['source'] or '-'} -> {now['target']}"
    gateway = moved if now["moves_gateway"] else f"stays on {now['source'] or '-'}"
    pairs(
        [
            ("id", now["id"]),
            ("udn", now["udn"]),
            ("port", port),
            ("gateway", gateway),
            ("target", now["target"]),
            ("phase", now["phase"]),
            ("waits for", now["waits_for"]),
            ("reason", now["reason"]),
            ("trigger", now["trigger"]),
            ("binding", now["binding"]),
            ("transfer", now["transfer"]),
            ("overlap", f"{now['overlap_s']:g} s"),
            ("phases", phases),
            ("entries", summary(counts)),
            ("refused because", counts["refused_by_reason"]),
            ("not moved", now["unmoved"]),
            ("NB transactions", now["nb_transactions"]),
            ("VM arrived", now["arrived"]),
            ("warnings", now["warnings"]),
            *([("kept in", "the history only")] if now.get("from_history") else []),
        ]
    )  # fmt: skip


def migration_rows(migrations: list[Document], *, empty: str) -> None:
    """The table of migrations."""
    table(
        ["ID", "UDN", "PORT", "SOURCE", "TARGET", "PHASE", "SINCE", "WAITS FOR / REASON"],
        (
            (m["id"], m["udn"], m["port"], m["source"], m["target"], m["phase"], clock(m["phase_since"]),
             m["reason"] or m["waits_for"])
            for m in migrations
        ),
        empty=empty,
    )  # fmt: skip


def finish(service_url: str, started: Document, *, until: Until, timeout_s: float, json_out: bool) -> None:
    """Wait for ``started`` and print what became of it."""
    with api(service_url) as service:
        done = wait(service, str(started["id"]), until=until, timeout_s=timeout_s)
    if json_out:
        print_json(done)
    else:
        show_migration(done)


@app.command("start")
def start(
    udn: UdnArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Chassis to go to, by system-id.")],
    port: Annotated[
        str | None, typer.Option("--port", help="The VM's port; without: only the gateway moves.")
    ] = None,
    binding: Annotated[
        str, typer.Option("--binding", help="Who writes requested-chassis: 'ovnmig' or 'external'.")
    ] = "external",
    trigger: Annotated[
        str, typer.Option("--trigger", help="'auto': when the VM arrives; 'manual': on 'migrate switch'.")
    ] = "auto",
    transfer: Annotated[
        str, typer.Option("--transfer", help="'none' breaks sessions; for controls.")
    ] = "full",
    overlap_s: Annotated[
        float, typer.Option("--overlap-s", help="Seconds both nodes keep the sessions.")
    ] = OVERLAP_S,
    gateway: Annotated[
        bool | None,
        typer.Option("--gateway/--no-gateway", help="Whether the gateway moves [default: policy]."),
    ] = None,
    allow_interruption: InterruptionOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check and plan.")] = False,
    idempotency_key: KeyOption = None,
    wait_for_it: Annotated[bool, typer.Option("--wait", help="Wait and show progress.")] = False,
    until: UntilOption = Until.COMPLETED,
    timeout_s: TimeoutOption = 900.0,
    json_out: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Start a migration of a VM, its gateway, or both."""
    body = {
        "udn": udn, "target": target, "port": port, "binding": binding, "trigger": trigger,
        "transfer": transfer, "overlap_s": overlap_s, "gateway": gateway, "dry_run": dry_run,
        "allow_interruption": allow_interruption,
    }  # fmt: skip
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    with api(url) as service:
        answer = service.call("POST", "/v1/migrations", body=body, headers=headers)
    if dry_run:
        show_dry_run(answer, json_out=json_out)
        return
    if wait_for_it:
        say(f"migration {answer['id']}")
        finish(url, answer, until=until, timeout_s=timeout_s, json_out=json_out)
    elif json_out:
        print_json(answer)
    else:
        show_migration(answer)


def show_dry_run(answer: Document, *, json_out: bool) -> None:
    """Print a dry run; exits 1 when the migration would be refused."""
    if json_out:
        print_json(answer)
    else:
        pairs(
            [
                ("possible", answer["possible"]),
                ("problems", [p["message"] for p in answer["problems"]] or "none"),
                ("would do", answer["plan"]),
                ("warnings", answer["warnings"] or "none"),
            ]
        )
    if not answer["possible"]:
        raise typer.Exit(1)


@app.command("show")
def show(migration_id: MigrationArgument, json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """One migration: phase, times, counts, what it waits for."""
    with api(url) as service:
        answer = service.get(f"/v1/migrations/{segment(migration_id)}")
    if json_out:
        print_json(answer)
    else:
        show_migration(answer)


@app.command("list")
def list_migrations(
    udn: Annotated[str | None, typer.Option("--udn", help="Only those of this UDN.")] = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Older ones too, from the history of the service.")
    ] = False,
    json_out: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Migrations in flight and the last ones of each UDN, the newest first."""
    with api(url) as service:
        query = {"udn": udn, "all": "true" if all_of_them else None}
        answer = service.get("/v1/migrations", **{key: value for key, value in query.items() if value})
    if json_out:
        print_json(answer)
    else:
        migration_rows(answer["migrations"], empty="no migrations")


@app.command("switch")
def switch(
    migration_id: MigrationArgument, json_out: JsonOption = False, url: UrlOption = DEFAULT_URL
) -> None:
    """Order the switch of a migration that waits for it."""
    with api(url) as service:
        answer = service.call("POST", f"/v1/migrations/{segment(migration_id)}/switch")
    if json_out:
        print_json(answer)
    else:
        say(f"switch of {migration_id} ordered; it is {answer['phase']}")


@app.command("cancel")
def cancel(
    migration_id: MigrationArgument, json_out: JsonOption = False, url: UrlOption = DEFAULT_URL
) -> None:
    """Cancel a migration: everything goes back as it was."""
    with api(url) as service:
        answer = service.call("DELETE", f"/v1/migrations/{segment(migration_id)}")
    if json_out:
        print_json(answer)
    else:
        say(f"cancel of {migration_id} ordered; it is {answer['phase']}")


@app.command("wait")
def wait_for(
    migration_id: MigrationArgument,
    until: UntilOption = Until.COMPLETED,
    timeout_s: TimeoutOption = 900.0,
    json_out: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Wait for a migration, with progress. Exits 1 if rolled back or failed, 6 when the time is over."""
    finish(url, {"id": migration_id}, until=until, timeout_s=timeout_s, json_out=json_out)
