"""The documents: links lead somewhere, commands exist, decisions have their three parts."""

from __future__ import annotations

import re

import pytest

from tests.house.tree import ROOT, text, tracked

DOCUMENTS = tracked("*.md")


def anchors(document: str) -> set[str]:
    """The anchors that GitHub makes from a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(document: str) -> str:
    fenced = re.sub(r"^```.*?^```", "", document, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", fenced)


def verbs() -> set[str]:
    return set(re.findall(r"^([a-z]+):", text("Makefile"), re.M))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_link_of_a_document_leads_to_a_file_and_heading(path: str) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text(path))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / path).parent / name if name else ROOT / path
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_make_verb_that_a_document_names_exists(path: str) -> None:
    # In a code block or between backticks; "make sense" in a sentence is not a command.
    named = re.findall(r"(?:^ {4}|^|`)make ([a-z]+)(?=[ `\n]|$)", code_of(text(path)), re.M)
    assert set(named) <= verbs()


def code_of(document: str) -> str:
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```", document, re.M | re.S)
    indented = re.findall(r"^ {4}\S.*$", document, re.M)
    quoted = re.findall(r"`[^`\n]+`", document)
    return "\n".join([*fenced, *indented, *quoted])


def test_the_readme_shows_the_two_commands_that_matter() -> None:
    code = code_of(text("README.md"))
    assert "make demo" in code
    assert "make test" in code


def test_help_lists_every_verb_with_one_line() -> None:
    described = re.findall(r"^([a-z]+):.*## \S", text("Makefile"), re.M)
    assert set(described) == verbs()
    assert len(described) == len(set(described))
    assert {"help", "demo", "test", "check", "contract", "bench"} <= set(described)


@pytest.mark.parametrize("path", tracked("docs/decisions/0*.md"))
def test_a_decision_says_context_decision_and_consequences(path: str) -> None:
    headings = re.findall(r"^## (.+)$", text(path), re.M)
    assert headings == ["Context", "Decision", "Consequences"]


def test_decisions_are_numbered_without_gap_and_listed() -> None:
    names = [path.rpartition("/")[2] for path in tracked("docs/decisions/0*.md")]
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    index = text("docs/decisions/README.md")
    assert [name for name in names if name not in index] == []
