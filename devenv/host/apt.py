"""Debian's archive as this machine reaches it: the mirror is read from apt, none is written down here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devenv.host.errors import SandboxError
from devenv.host.progress import Progress

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
HOST_PACKAGES = (
    "bc",
    "bison",
    "debian-archive-keyring",
    "flex",
    "gcc",
    "iproute2",
    "libc6-dev",
    "libelf-dev",
    "libssl-dev",
    "make",
    "mmdebstrap",
    "mount",
    "patch",
    "util-linux",
    "xz-utils",
)
PASSED_OPTIONS = (
    "Acquire::Check-",
    "Acquire::http",
    "Acquire::https",
    "Acquire::Retries",
    "Acquire::ForceIPv",
)


ROLLING = "sid"
"""Debian's suite that is never released."""


@dataclass(frozen=True)
class Archive:
    """Base URIs of the archive and of its security part (None when the machine has none)."""

    main: str
    security: str | None

    def sources(self, suite: str) -> list[str]:
        """Returns the source lines of a suite."""
        lines = [f"deb {self.main} {suite} main"]
        if self.security and suite != ROLLING:  # its fixes come as any other upload
            lines.append(f"deb {self.security} {suite}-security main")
        return lines


def run(command: list[str]) -> str:
    """Runs a command and returns what it said; raises SandboxError with its words when it fails."""
    env = dict(os.environ) | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=env, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise SandboxError(f"`{shlex.join(command)}` failed with {done.returncode}:\n{words}")
    return done.stdout


def installed(package: str) -> bool:
    """Tells whether a Debian package is installed."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True, check=False
    )
    return done.returncode == 0 and done.stdout.startswith("installed")


def ensure_packages(progress: Progress, packages: Sequence[str]) -> None:
    """Installs what is missing, quietly; raises SandboxError when that cannot be."""
    if not shutil.which("apt-get"):
        raise SandboxError("there is no apt-get", hint="the sandbox is built on Debian; run it there")
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return
    with progress.task("host", f"installing {' '.join(missing)}", 20):
        run(["apt-get", "update", "-q"])
        run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing])


def parse_index_targets(text: str) -> Archive:
    """Finds Debian's archive in apt's own list of index files (`URI|label` lines)."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        uri, _, label = line.partition("|")
        if label in ("Debian", "Debian-Security"):
            found.setdefault(label, uri.rstrip("/"))
    if "Debian" not in found:
        raise SandboxError(
            "apt on this machine knows no Debian archive",
            hint="add a Debian mirror to /etc/apt/sources.list.d, run `apt-get update`, and try again",
        )
    return Archive(main=found["Debian"], security=found.get("Debian-Security"))


def discover() -> Archive:
    """Returns the archive this machine uses; refreshes apt's lists when they are empty."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(LABEL)", "Created-By: Packages"]
    try:
        return parse_index_targets(run(command))
    except SandboxError:
        run(["apt-get", "update", "-q"])
        return parse_index_targets(run(command))


def passed_options() -> list[str]:
    """Returns the apt options of this machine that decide how the archive is reached (proxy, dates)."""
    lines = run(["apt-config", "dump"]).splitlines()
    return [line.rstrip(";") for line in lines if line.startswith(PASSED_OPTIONS) and ' "";' not in line]


def private_apt(suite: str, folder: Path, status: Path | None = None) -> list[str]:
    """Returns an `apt-get` of a suite with its lists read, whatever suite this machine itself runs.

    A private configuration in `folder` is used: this machine's lists and sources stay as they are. `status`
    is dpkg's file of what is installed; without one, nothing is.
    """
    private = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial", "etc/preferences.d"):
        (private / name).mkdir(parents=True)
    signed = [line.replace("deb ", f"deb [signed-by={KEYRING}] ", 1) for line in discover().sources(suite)]
    (private / "sources.list").write_text("\n".join(signed) + "\n")
    (private / "status").touch()
    options = [
        f"Dir::Etc::sourcelist={private}/sources.list",
        "Dir::Etc::sourceparts=-",
        f"Dir::Etc::preferencesparts={private}/etc/preferences.d",
        f"Dir::State::lists={private}/lists",
        f"Dir::State::status={status or private / 'status'}",
        f"Dir::Cache={private}/cache",
        "APT::Sandbox::User=root",
    ]
    apt_get = ["apt-get", *(word for option in options for word in ("-o", option))]
    run([*apt_get, "update", "-q"])
    return apt_get


def download_with_dependencies(packages: Sequence[str], suite: str, folder: Path, tree: Path) -> list[Path]:
    """Downloads packages of a suite, and of what they need the part that a root file system lacks."""
    apt_get = private_apt(suite, folder, tree / "var/lib/dpkg/status")
    run([*apt_get, "install", "-y", "-q", "--download-only", "--no-install-recommends", *packages])
    return sorted((folder / "apt/cache/archives").glob("*.deb"))


def download_package(package: str, suite: str, folder: Path) -> Path:
    """Downloads one package of a suite into a folder, whatever suite this machine itself runs."""
    apt_get = private_apt(suite, folder)
    target = folder / "package"
    target.mkdir()
    script = 'cd "$1" && shift && exec "$@"'
    run(["sh", "-c", script, "sh", str(target), *apt_get, "download", "-q", package])
    return next(target.glob("*.deb"))
