"""A real command daemon on this machine, for the tests of the channel and of the daemon."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from devenv.host.channel import Channel
from devenv.host.paths import REPO


@pytest.fixture(scope="module")
def daemon_socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="execd-") as folder:
        path = Path(folder, "channel.sock")
        command = [sys.executable, "-m", "devenv.guest.execd", "--listen", str(path)]
        env = dict(os.environ) | {"PYTHONPATH": str(REPO)}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as daemon:
            assert daemon.stdout is not None
            assert "listening" in daemon.stdout.readline()
            yield path
            Channel(path).power_off()
            assert daemon.wait(timeout=20) == 0
