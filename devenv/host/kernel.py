"""Builds the guest's kernel: Debian's kernel source, our fragment, a small patch, User Mode Linux."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from devenv.host.apt import download_package, run
from devenv.host.errors import SandboxError
from devenv.host.paths import REPO
from devenv.host.progress import Progress, Task
from devenv.host.store import Store

SOURCE_PACKAGE = "linux-source-6.12"
SOURCE_SUITE = "trixie"
RECIPE = "1"
FRAGMENT = REPO / "devenv/kernel.config"
PATCH = REPO / "devenv/kernel.patch"
OBJECTS = 1060
BUILD_USUALLY_S = 240.0


def inputs() -> dict[str, str]:
    """Returns what the kernel is made from; a newer point release of the source alone makes no new one."""
    return {
        "source": f"{SOURCE_PACKAGE} of {SOURCE_SUITE}",
        "fragment": FRAGMENT.read_text(),
        "patch": PATCH.read_text(),
        "recipe": RECIPE,
    }


def unmet(fragment: str, config: str) -> list[str]:
    """Returns the lines of the fragment that the final configuration does not have."""
    have = set(config.splitlines())
    wanted = [line for line in fragment.splitlines() if line.startswith(("CONFIG_", "# CONFIG_"))]
    return [line for line in wanted if line not in have]


def configure(source: Path) -> None:
    """Writes the kernel's configuration; raises SandboxError when a wanted option did not survive."""
    run(["make", "-C", str(source), "ARCH=um", "allnoconfig"])
    merge = 'cd "$1" && exec ./scripts/kconfig/merge_config.sh -m -O . .config "$2"'
    run(["sh", "-c", merge, "sh", str(source), str(FRAGMENT)])
    run(["make", "-C", str(source), "ARCH=um", "olddefconfig"])
    lost = unmet(FRAGMENT.read_text(), (source / ".config").read_text())
    if lost:
        raise SandboxError(
            f"this kernel source does not take: {', '.join(lost)}",
            hint="an option was renamed or lacks another one; correct devenv/kernel.config",
        )


def compile_kernel(source: Path, log: Path, task: Task) -> None:
    """Compiles with every processor, at low priority, and counts the objects for the reminder."""
    count = 0

    def told() -> str:
        return f"{count} of about {OBJECTS} objects"

    task.detail = told
    command = ["nice", "make", "-C", str(source), "ARCH=um", f"-j{os.cpu_count() or 1}", "linux"]
    with open(log, "w") as sink:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            sink.write(line)
            count += line.startswith(("  CC", "  AS"))
        if process.wait() != 0:
            tail = "\n".join(log.read_text().splitlines()[-15:])
            raise SandboxError(f"the kernel does not compile:\n{tail}")


def build(progress: Progress, draft: Path) -> None:
    """Fills a folder with the kernel `linux`, its configuration and the version of its source."""
    work = draft / "work"
    work.mkdir()
    with progress.task("kernel", f"downloading and unpacking {SOURCE_PACKAGE}", 25):
        package = download_package(SOURCE_PACKAGE, SOURCE_SUITE, work)
        run(["dpkg-deb", "-x", str(package), str(work / "deb")])
        tarball = next((work / "deb/usr/src").glob("linux-source-*.tar.*"))
        source = work / "source"
        source.mkdir()
        run(["tar", "-C", str(source), "--strip-components=1", "-xf", str(tarball)])
        run(["patch", "-d", str(source), "-p1", "-i", str(PATCH)])
    configure(source)
    with progress.task("kernel", "compiling it", BUILD_USUALLY_S) as task:
        compile_kernel(source, work / "build.log", task)
    run(["strip", "-o", str(draft / "linux"), str(source / "linux")])
    shutil.copy(source / ".config", draft / "config")
    (draft / "version").write_text(package.name.split("_")[1] + "\n")
    shutil.rmtree(work)


def obtain(store: Store, progress: Progress) -> Path:
    """Returns the kernel program, built when the cache has none."""
    return store.obtain("kernel", inputs(), lambda draft: build(progress, draft)) / "linux"
