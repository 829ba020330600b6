"""Lays out the private mounts and the link of one sandbox, inside its own namespaces.

Everything the guest sees of the host is bound at fixed short paths under one folder: the kernel's command
line then needs no quoting, the root file system is read-only whatever the guest does, and all of it vanishes
with the mount namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

LINK_HOST = "192.0.2.1"
LINK_GUEST = "192.0.2.2"
BASE_CANDIDATES = ("/mnt", "/media", "/srv", "/opt")
SCRATCH_MARGIN_MB = 256


class StageError(Exception):
    """The namespaces cannot be laid out; the text says which command failed and how."""


@dataclass(frozen=True)
class Stage:
    """Where things are inside the private mount namespace."""

    base: Path

    @property
    def kernel(self) -> Path:
        return self.base / "linux"

    @property
    def rootfs(self) -> Path:
        return self.base / "rootfs"

    @property
    def root(self) -> Path:
        """The writable root of the host backend."""
        return self.base / "root"

    @property
    def scratch(self) -> Path:
        return self.base / "scratch"


def call(*command: str) -> None:
    """Runs a command; raises StageError with its words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StageError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")


def choose_base(needed: list[str]) -> Path:
    """Returns a folder that every Debian has and that hides none of the needed paths when mounted over."""
    for candidate in BASE_CANDIDATES:
        inside = any(os.path.realpath(path).startswith(candidate + "/") for path in needed)
        if os.path.isdir(candidate) and not inside:
            return Path(candidate)
    raise StageError(f"none of {', '.join(BASE_CANDIDATES)} can be mounted over")


def bind(source: str, target: Path, *, read_only: bool) -> None:
    """Binds a file or folder at a path that is made for it."""
    if os.path.isdir(source):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.touch()
    call("mount", "--bind", source, str(target))
    if read_only:
        call("mount", "-o", "remount,bind,ro", str(target))


def compose_root(rootfs: Path, root: Path) -> None:
    """Makes a writable root from a read-only root file system without an overlay of the host's kernel.

    Links are copied, /etc and /var too (a few megabytes); the big folders are bound read-only.
    """
    root.mkdir(exist_ok=True)
    # `ip netns` changes how mounts spread from /, which therefore has to be a mount.
    call("mount", "--bind", str(root), str(root))
    for entry in sorted(rootfs.iterdir()):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(os.readlink(entry))
        elif entry.name in ("etc", "var", "root"):
            shutil.copytree(entry, target, symlinks=True, ignore=shutil.ignore_patterns("cache", "lists"))
        elif entry.name == "usr":
            bind(str(entry), target, read_only=True)
        else:
            target.mkdir(exist_ok=True)
    for folder, kind in (("proc", "proc"), ("sys", "sysfs"), ("tmp", "tmpfs"), ("run", "tmpfs")):
        call("mount", "-t", kind, kind, str(root / folder))
    call("mount", "--rbind", "/dev", str(root / "dev"))


def bring_up_link() -> None:
    """Makes the link to the guest: a tap device in the private network namespace.

    The guest's driver drops frames longer than the MTU, so this side must not leave segmentation to the link.
    """
    call("ip", "tuntap", "add", "tap0", "mode", "tap")
    call("ip", "link", "set", "tap0", "gso_max_segs", "1")
    call("ip", "address", "add", f"{LINK_HOST}/24", "dev", "tap0")
    call("ip", "link", "set", "tap0", "up")


def lay_stage(
    backend: str,
    *,
    kernel: str,
    rootfs: str,
    venv: str,
    source: str,
    out: str,
    memory_mb: int,
    vms: str = "",
) -> Stage:
    """Lays out mounts and link; raises StageError when a step fails."""
    stage = Stage(choose_base([kernel, rootfs, venv, source, out, vms]))
    call("ip", "link", "set", "lo", "up")
    call("mount", "-t", "tmpfs", "-o", "mode=755", "sandbox", str(stage.base))
    bind(rootfs, stage.rootfs, read_only=True)
    if backend == "uml":
        bind(kernel, stage.kernel, read_only=True)
        stage.scratch.mkdir()
        size = f"size={memory_mb + SCRATCH_MARGIN_MB}M"
        call("mount", "-t", "tmpfs", "-o", size, "memory", str(stage.scratch))
        (stage.scratch / "uml").mkdir()
        folders = {"venv": stage.base / "venv", "repo": stage.base / "repo", "out": stage.base / "out"}
        folders["vms"] = stage.base / "vms"
        bind(source, stage.rootfs / "src", read_only=True)
        bring_up_link()
    else:
        compose_root(stage.rootfs, stage.root)
        (stage.root / "opt/ovnmig").mkdir(parents=True, exist_ok=True)
        folders = {
            "venv": stage.root / "opt/ovnmig",
            "repo": stage.root / "src",
            "out": stage.root / "out",
            "vms": stage.root / "opt/vms",
        }
    bind(venv, folders["venv"], read_only=True)
    bind(source, folders["repo"], read_only=True)
    bind(out, folders["out"], read_only=False)
    # Always there: a guest that needs none finds it empty.
    folders["vms"].mkdir(parents=True, exist_ok=True)
    if vms:
        bind(vms, folders["vms"], read_only=True)
    return stage
