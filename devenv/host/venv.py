"""Builds the guest's virtual environment: the locked dependencies, installed by the guest's own Python.

It is a layer of its own, mounted at /opt/ovnmig: a new lock file leaves the root file system as it is. pip
runs on this machine, where the network is, in a throw-away root over the root file system (this module as a
program, in namespaces of its own). ovnmig itself is not installed: the environment imports it from /src.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from devenv.host import pipconf
from devenv.host.errors import SandboxError
from devenv.host.paths import REPO
from devenv.host.progress import Progress
from devenv.host.stage import bind, call, choose_base, compose_root
from devenv.host.store import Store

# sid's Python is newer than the locks: it gets the newest one, whose hashes cover wheels for its Python too.
LOCKS = {
    "trixie": "requirements/py313.txt",
    "bookworm": "requirements/py311.txt",
    "sid": "requirements/py313.txt",
}
BUILD_LOCK = "requirements/build.txt"
TARGET = "/opt/ovnmig"
RECIPE = "1"
COMMAND = f'#!/bin/sh\nexec {TARGET}/bin/python -m ovnmig "$@"\n'


def inputs(suite: str, rootfs: Path) -> dict[str, str]:
    """Returns what the virtual environment is made from."""
    return {
        "lock": (REPO / LOCKS[suite]).read_text(),
        "build": (REPO / BUILD_LOCK).read_text(),
        "rootfs": rootfs.parent.name,
        "command": COMMAND,
        "recipe": RECIPE,
    }


def build(progress: Progress, suite: str, rootfs: Path, draft: Path) -> None:
    """Fills a folder with `tree`, the virtual environment."""
    tree = draft / "tree"
    tree.mkdir()
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable]
    locks = [str(REPO / LOCKS[suite]), str(REPO / BUILD_LOCK)]
    command += ["-m", "devenv.host.venv", str(rootfs), str(tree), *locks]
    env = dict(os.environ) | {"PYTHONPATH": str(REPO)}
    with progress.task("venv", f"installing the dependencies locked in {LOCKS[suite]}", 40):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise SandboxError(f"the guest's virtual environment cannot be made:\n{words}")


def obtain(store: Store, progress: Progress, suite: str, rootfs: Path) -> Path:
    """Returns the virtual environment of a suite, built when the cache has none."""

    def fill(draft: Path) -> None:
        build(progress, suite, rootfs, draft)

    return store.obtain(f"venv-{suite}", inputs(suite, rootfs), fill) / "tree"


def lend(root: Path) -> dict[str, str]:
    """Lends this machine's way to the package index to a composed root; returns the environment for pip."""
    files = pipconf.config_files(os.environ, Path.home())
    lent = pipconf.variables(os.environ)
    config = pipconf.merged_config(files)
    for path in pipconf.local_paths([config, *lent.values()]):
        target = root / str(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            target.unlink()
        bind(str(path), target, read_only=True)
    (root / "run/pip.conf").write_text(config)
    for name in ("resolv.conf", "hosts"):
        words = Path("/etc", name).read_text() if Path("/etc", name).exists() else ""
        copied = root / "etc" / name
        copied.unlink(missing_ok=True)
        copied.write_text(words)
    programs = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return lent | {"PIP_CONFIG_FILE": "/run/pip.conf", "PATH": programs, "HOME": "/root", "LANG": "C.UTF-8"}


def install(rootfs: Path, tree: Path, lock: Path, build_lock: Path) -> None:
    """Makes the environment; runs in mount and process namespaces of its own."""
    needed = [rootfs, tree, lock, build_lock, *pipconf.config_files(os.environ, Path.home())]
    needed += pipconf.local_paths(
        [pipconf.merged_config(needed[4:]), *pipconf.variables(os.environ).values()]
    )
    base = choose_base([str(path) for path in needed])
    call("mount", "-t", "tmpfs", "-o", "mode=755", "venv", str(base))
    root = base / "root"
    compose_root(rootfs, root)
    (root / TARGET.lstrip("/")).mkdir(parents=True, exist_ok=True)
    call("mount", "--bind", str(tree), str(root / TARGET.lstrip("/")))
    env = lend(root)
    for source, name in ((lock, "lock.txt"), (build_lock, "build.txt")):
        (root / "run" / name).write_text(source.read_text())

    def inside(*command: str) -> None:
        done = subprocess.run(["chroot", str(root), *command], env=env, check=False)
        if done.returncode != 0:
            raise SystemExit(f"`{' '.join(command)}` failed with {done.returncode}")

    pip = (f"{TARGET}/bin/python", "-m", "pip", "install", "-q", "--no-cache-dir", "--require-hashes")
    inside("/usr/bin/python3", "-m", "venv", TARGET)
    inside(*pip, "-r", "/run/build.txt")
    inside(*pip, "--no-build-isolation", "-r", "/run/lock.txt")
    packages = next((tree / "lib").glob("python3*/site-packages"))
    (packages / "ovnmig-source.pth").write_text("/src\n")
    (tree / "bin/ovnmig").write_text(COMMAND)
    (tree / "bin/ovnmig").chmod(0o755)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for name in ("rootfs", "tree", "lock", "build_lock"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    install(arguments.rootfs, arguments.tree, arguments.lock, arguments.build_lock)


if __name__ == "__main__":
    main()
