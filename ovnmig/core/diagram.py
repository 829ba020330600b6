"""The state diagram, drawn from the transition table (Mermaid)."""

from __future__ import annotations

from ovnmig.core.states import ENDED_STATES, State
from ovnmig.core.transitions import ROWS

BEGIN = "<!-- diagram: begin (generated, see tools/diagram) -->"
END = "<!-- diagram: end -->"


def _name(state: State) -> str:
    return state.value.replace("-", "_")


def mermaid() -> str:
    """A stateDiagram-v2 of every change of state; events without one are left out, equal edges are merged."""
    edges: dict[tuple[State, State], list[str]] = {}
    for row in ROWS:
        if row.source is not row.target:
            edges.setdefault((row.source, row.target), []).append(row.says)
    lines = [
        "stateDiagram-v2",
        f"    [*] --> {_name(State.REQUESTED)}",
        f"    [*] --> {_name(State.RESUMED)}",
    ]
    lines += [
        f"    {_name(source)} --> {_name(target)}: {' / '.join(labels).replace(':', ',')}"
        for (source, target), labels in edges.items()
    ]
    lines += [f"    {_name(state)} --> [*]" for state in State if state in ENDED_STATES]
    return "\n".join(lines)


def table() -> str:
    """Every row as a Markdown table, in the order in which rows are tried."""
    lines = ["| state | event | condition | next | what |", "|---|---|---|---|---|"]
    for row in ROWS:
        condition = row.when.__name__.replace("_", " ") if row.when else ""
        lines.append(
            f"| {row.source.value} | {row.event.__name__} | {condition} | {row.target.value} | {row.says} |"
        )
    return "\n".join(lines)


def section() -> str:
    """What stands between the markers in ``docs/design/move.md``, markers included."""
    return f"{BEGIN}\n\n```mermaid\n{mermaid()}\n```\n\n{table()}\n\n{END}"


def replaced(text: str) -> str:
    """``text`` with its marked section drawn anew. Raises ValueError when a marker is missing."""
    before, _, rest = text.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise ValueError("the page has no diagram markers")
    return before + section() + after
