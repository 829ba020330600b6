from __future__ import annotations

import subprocess
import sys

from ovnmig import __version__


def test_the_package_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ovnmig", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"ovnmig {__version__}\n")
