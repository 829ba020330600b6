"""The commands that the documents show exist, with the options that they show."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer

from ovnmig.cli.app import app
from tests.house.tree import text, tracked

MANUAL = "docs/cli.md"
DOCUMENTS = [path for path in tracked("*.md") if path != "CHANGELOG.md"]  # that tells of the past too
EVERYWHERE = {"--json", "--url"}
"""Options of nearly every command: told once, not in each synopsis."""
ROOT_COMMAND: Any = typer.main.get_command(app)


def leaves(group: Any = ROOT_COMMAND, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command by its path."""
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        found |= leaves(command, (*path, name)) if inner else {(*path, name): command}
    return found


LEAVES = leaves()


def outside_brackets(line: str) -> list[str]:
    """``a [b | c] | d`` in its two alternatives."""
    parts, depth = [""], 0
    for word in re.split(r"( \| |[\[\]])", line):
        depth += (word == "[") - (word == "]")
        if word == " | " and depth == 0:
            parts.append("")
        else:
            parts[-1] += word
    return parts


def synopses() -> list[str]:
    """Each command of docs/cli.md on one line, without what is told beside it."""
    block = re.findall(r"^```\n(ovnmig serve.*?)^```", text(MANUAL), re.M | re.S)[0]
    lines: list[str] = []
    for line in block.splitlines():
        words = re.split(r" {4,}", line.strip())[0]
        if line.startswith("ovnmig "):
            lines.append(words)
        elif words:
            lines[-1] += " " + words
    found = []
    for line in lines:
        first, *more = outside_brackets(line)
        group = " ".join(first.split()[:2])
        found += [first, *(f"{group} {other}" for other in more)]
    return found


def split(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The path of the command and its arguments."""
    length = max((n for n in (1, 2) if tuple(words[:n]) in LEAVES), default=0)
    assert length, f"there is no command {' '.join(words[:2])!r}"
    return tuple(words[:length]), words[length:]


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def parse(command: Any, arguments: list[str]) -> None:
    """Raises the parser's own error on an unknown option, a missing argument, a wrong value."""
    command.make_context("ovnmig", list(arguments))


def as_arguments(synopsis: str) -> list[str]:
    """All of a synopsis as a command line: "1" for each placeholder, the first of each choice."""
    bare = re.sub(r"\[the same options.*?\]", "", synopsis)
    words = [word.split("|")[0] for word in re.sub(r"[\[\]]|\.\.\.", " ", bare).split() if word != "|"]
    return [word if re.fullmatch(r"-.*|[a-z]+", word) else "1" for word in words[1:]]


def named_options(words: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", words))


@pytest.mark.parametrize("synopsis", synopses())
def test_each_synopsis_of_the_manual_parses_and_names_every_option(synopsis: str) -> None:
    path, arguments = split(as_arguments(synopsis))
    parse(LEAVES[path], arguments)
    if "[the same options" not in synopsis:
        missing = {
            parameter.opts[0]
            for parameter in LEAVES[path].params
            if parameter.opts[0].startswith("--")
            and not named_options(synopsis) & {*parameter.opts, *parameter.secondary_opts}
        }
        assert missing - EVERYWHERE == set()


def test_the_manual_has_a_synopsis_for_each_command() -> None:
    assert {split(as_arguments(line))[0] for line in synopses()} == set(LEAVES)


def examples() -> list[tuple[str, str]]:
    """Whole command lines in blocks of code, with their document; the manual's block holds synopses."""
    found = []
    for path in DOCUMENTS:
        joined = re.sub(r"\\\n\s*", "", text(path))
        fenced = "".join(re.findall(r"^```[^\n]*\n(.*?)^```", joined, re.M | re.S)) if path != MANUAL else ""
        lines = re.findall(r"^ {4}(ovnmig [a-z].*)$", joined, re.M)
        lines += re.findall(r"^(ovnmig [a-z].*)$", fenced, re.M)
        found += [(path, line) for line in lines]
    return found


@pytest.mark.parametrize(("document", "line"), examples())
def test_each_example_parses(document: str, line: str) -> None:
    path, arguments = split(shlex.split(line, comments=True)[1:])
    parse(LEAVES[path], arguments)


def test_the_readme_has_examples() -> None:
    assert {"pki init", "udn create", "migrate start"} <= {
        " ".join(line.split()[1:3]) for path, line in examples() if path == "README.md"
    }


def mentions() -> list[tuple[str, str]]:
    """Commands in running text, between backticks, with their document."""
    return [
        (path, words)
        for path in DOCUMENTS
        for words in re.findall(r"`ovnmig ([a-z]+(?: [^`]*)?)`", text(path).replace("\n", " "))
    ]


def strangers(words: str) -> set[str]:
    """What a mentioned command has that the real one has not. A group alone is fine."""
    names = re.findall(r"[a-z]+", re.split(r" [^a-z]", words)[0])[:2]
    if tuple(names) not in LEAVES and tuple(names[:1]) not in LEAVES:
        known = len(names) == 1 and hasattr(ROOT_COMMAND.commands.get(names[0]), "commands")
        return set() if known else {" ".join(names)}
    path = tuple(names) if tuple(names) in LEAVES else tuple(names[:1])
    return named_options(words) - options_of(LEAVES[path])


@pytest.mark.parametrize(("document", "words"), sorted(set(mentions())))
def test_each_command_in_running_text_exists_with_its_options(document: str, words: str) -> None:
    assert strangers(words) == set()


def test_a_command_or_option_that_is_not_there_is_noticed() -> None:
    assert strangers("udn shew") == {"udn shew"}
    assert strangers("bogus") == {"bogus"}
    assert strangers("gateway move --allow-nothing") == {"--allow-nothing"}
    assert strangers("migrate") == strangers("doctor") == strangers("udn create NAME --vlan 7") == set()
