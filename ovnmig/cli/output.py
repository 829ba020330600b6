"""What is printed: tables for people, JSON for programs, progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 240
"""Columns of a table that does not go to a terminal: lines are for grep there and are never cut."""


def console(*, stderr: bool = False) -> Console:
    """A console that never cuts or colours what goes to a file or pipe."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=WIDE, no_color=True)
    return made


def print_json(data: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def print_json_line(data: object) -> None:
    """One JSON document on one line of stdout, at once."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def cell(value: object) -> str:
    """A value as a person reads it: ``-`` for nothing, lists joined."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(str(v) for v in value)
    return str(value)


def _print(made: Table) -> None:
    out = console()
    if out.is_terminal:
        out.print(made)
        return
    with out.capture() as captured:
        out.print(made)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table, or the sentence ``empty`` when there are no rows."""
    listed = list(rows)
    if not listed:
        console().print(Text(empty))
        return
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in listed:
        made.add_row(*(Text(cell(value)) for value in row))
    _print(made)


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """Names and values below each other; a list takes one line per item."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        many = isinstance(value, list | tuple) and len(value) > 0
        lines = [cell(v) for v in value] if many and isinstance(value, list | tuple) else [cell(value)]
        for index, line in enumerate(lines):
            made.add_row(Text(name if index == 0 else ""), Text(line))
    _print(made)


def say(text: str) -> None:
    """A line about what goes on, on stderr, so that stdout stays for results."""
    console(stderr=True).print(Text(text))


def say_error(message: str, details: Sequence[str] = ()) -> None:
    """An error on one screen."""
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), message))
    shown = details[:20]
    for line in shown:
        out.print(Text(f"  - {line}"))
    if len(details) > len(shown):
        out.print(Text(f"  ... and {len(details) - len(shown)} more (--json shows all)"))


def clock(value: str | None) -> str:
    """An RFC 3339 time as local wall clock with tenths of a second."""
    if not value:
        return "-"
    at = datetime.fromisoformat(value).astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 100000}"
