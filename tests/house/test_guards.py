"""The guards of conftest.py and pyproject.toml really guard."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
from blockbuster import BlockingError

import ovnmig.engine
from tests.house.tree import ROOT

# As if a module of the engine slept: the guard goes by the file that a call comes from.
SLEEPY = compile(
    "import time\nasync def nap():\n    time.sleep(0.001)\n", f"{ovnmig.engine.__path__[0]}/sleepy.py", "exec"
)


async def test_a_blocking_call_on_the_loop_raises() -> None:
    names: dict[str, object] = {}
    exec(SLEEPY, names)  # noqa: S102 - the code is above
    nap = names["nap"]
    assert callable(nap)
    with pytest.raises(BlockingError):
        await nap()


def test_a_warning_is_an_error() -> None:
    with pytest.raises(UserWarning, match="loud"):
        warnings.warn("loud", stacklevel=1)


@pytest.mark.parametrize("module", ["asyncio", "os", "time", "random", "sqlite3", "ovs", "pydantic"])
def test_the_contract_of_the_core_names_what_it_must_not_import(module: str) -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contract = settings.partition('id = "pure-core"')[2]
    assert f'"{module}"' in contract


def test_the_core_imports_without_any_library() -> None:
    # -S: no site-packages. What the core needs is the standard library alone.
    code = f"import sys, pkgutil, importlib; sys.path.insert(0, {str(ROOT)!r}); import ovnmig.core as core\n"
    code += "for m in pkgutil.iter_modules(core.__path__, 'ovnmig.core.'): importlib.import_module(m.name)\n"
    subprocess.run([sys.executable, "-S", "-B", "-c", code], check=True, capture_output=True)
