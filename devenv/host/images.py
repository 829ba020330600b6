"""Obtains the images a sandbox needs, building what the cache lacks side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from devenv.host import apt, kernel, rootfs, venv, vmlayer
from devenv.host.paths import cache_dir
from devenv.host.progress import Progress
from devenv.host.store import Store


@dataclass(frozen=True)
class Images:
    """Paths of the kernel program (None for the host backend), the root file system, the environment, and the
    layer for QEMU virtual machines (None unless asked for)."""

    kernel: Path | None
    rootfs: Path
    venv: Path
    vms: Path | None = None


def obtain(progress: Progress, suite: str, *, with_kernel: bool, with_vms: bool = False) -> Images:
    """Returns the images; raises SandboxError with the cause when one cannot be built."""
    store = Store(cache_dir())
    apt.ensure_packages(progress, apt.HOST_PACKAGES)

    def user_space() -> tuple[Path, Path, Path | None]:
        tree = rootfs.obtain(store, progress, suite)
        layer = vmlayer.obtain(store, progress, suite, tree) if with_vms else None
        return tree, venv.obtain(store, progress, suite, tree), layer

    with ThreadPoolExecutor(max_workers=2) as pool:
        kernel_job = pool.submit(kernel.obtain, store, progress) if with_kernel else None
        user_space_job = pool.submit(user_space)
        tree, environment, layer = user_space_job.result()
        program = kernel_job.result() if kernel_job else None
    return Images(kernel=program, rootfs=tree, venv=environment, vms=layer)
