"""What the files themselves must not say, and how long they may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import ovnmig
from tests.house.tree import ROOT, text, tracked

LINES_MAX = 400


def python_files(*patterns: str) -> Iterator[tuple[str, ast.Module]]:
    for pattern in patterns:
        for path in tracked(pattern):
            yield path, ast.parse(text(path), path)


def test_no_source_file_is_longer_than_the_cap() -> None:
    long = {
        path: lines
        for pattern in ("ovnmig/*.py", "devenv/*", "tests/*.py", "tools/*", "typings/*", "Makefile", ".ci/*")
        for path in tracked(pattern)
        if (lines := text(path).count("\n")) > LINES_MAX
    }
    assert not long


def test_locks_pin_every_package_with_a_hash_and_name_no_host() -> None:
    locks = tracked("requirements/*.txt")
    assert len(locks) >= 5
    for path in locks:
        entries = text(path).replace("\\\n", " ").splitlines()
        for entry in entries:
            if entry.startswith("#") or not entry.strip():
                continue
            assert re.match(r"[a-z0-9._-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", entry), (
                f"{path}: {entry[:80]}"
            )
        assert "://" not in text(path), f"{path} names a host"
        assert not re.search(r"^\s*(-i|-f|--(extra-)?index|--find-links)", text(path), re.M), path


# Only these may stand in an address with a scheme: identifiers that nobody fetches, names reserved for
# examples, and hosts that are the machine itself or the sandbox's own.
HOST_MAY_BE = re.compile(
    r"""localhost | \[::1\] | \[: | (\d+\.){3}\d+ | \[[0-9a-f:.]+\] | [^/]*\{.* | \$.*
      | ([a-z0-9-]+\.)*(example|test|invalid|example\.(com|org|net))
      | testserver(\.local)? | ovnmig | agent | service
      | (www\.)?rfc-editor\.org | json-schema\.org | (www\.)?apache\.org | www\.w3\.org""",
    re.X | re.I,
)
# The licence is quoted whole.
QUOTED = {"LICENSE"}


def test_no_tracked_file_names_a_package_registry_or_mirror() -> None:
    found = [
        f"{path}: {match[0]}"
        for path in tracked()
        if path not in QUOTED
        for match in re.finditer(r"\bhttps?://([^/\s\"'`<>)\\]+)", text(path))
        if not HOST_MAY_BE.fullmatch(re.sub(r"(:\d+|:\{.*)$", "", match[1].rpartition("@")[2]))
    ]
    assert not found, "hosts that are not in the list of this test: " + ", ".join(found)


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    # Spelt apart, so that this file passes its own test.
    roots = re.compile("|".join(["/wo" + "rk/", "/ho" + "me/[a-z]+/"]))
    found = [f"{path}: {match[0]}" for path in tracked() for match in roots.finditer(text(path))]
    assert not found


def test_no_test_asserts_on_calls_or_patches() -> None:
    found = [
        f"{path}:{node.lineno}: {node.attr}"
        for path, tree in python_files("tests/*.py", "ovnmig/*.py", "devenv/*.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match(r"assert_(any_)?(not_)?(called|await|has_calls)", node.attr)
    ]
    assert not found
    mocks = [path for path in tracked("*.py") if re.search(r"^\s*(from|import) unittest", text(path), re.M)]
    assert not mocks


def test_every_ovsdbapp_transaction_checks_errors() -> None:
    # Without check_error ovsdbapp only logs a failed command and returns None.
    found = [
        f"{path}:{node.lineno}"
        for path, tree in python_files("ovnmig/*.py", "tests/*.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"create_transaction", "transaction"}
        and not any(keyword.arg == "check_error" or keyword.arg is None for keyword in node.keywords)
    ]
    assert not found


def test_the_changelog_and_the_package_have_one_version() -> None:
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\]", text("CHANGELOG.md"), re.M)
    assert newest is not None
    assert newest[1] == ovnmig.__version__


def test_the_wheel_ships_the_package_only(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"ovnmig", f"ovnmig-{ovnmig.__version__}.dist-info"}
    assert "ovnmig/py.typed" in names
