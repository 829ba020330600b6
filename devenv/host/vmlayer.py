"""Builds the layer for real virtual machines: QEMU, and a small Linux for it to run.

It is a folder of its own, mounted at /opt/vms and built only when it is asked for: the root file system
stays as it is. QEMU is Debian's, with just those of its libraries that the root file system lacks. The small
Linux is Debian's cloud kernel and an initial RAM disk that holds a network driver and one program, devenv/vm.
"""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from devenv.host.apt import download_with_dependencies, run
from devenv.host.errors import SandboxError
from devenv.host.paths import REPO
from devenv.host.progress import Progress
from devenv.host.store import Store

KERNEL_PACKAGE = "linux-image-cloud-amd64"
PACKAGES = ("qemu-system-x86", KERNEL_PACKAGE)
# What QEMU needs of its packages at run time; the rest is other architectures, documents, device databases.
KEPT = ("usr/bin/qemu-system-x86_64", "usr/lib/x86_64-linux-gnu", "usr/share/qemu", "usr/share/seabios")
MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
)
"""The VM's network driver and what it needs, in the order of loading; newer kernels have some built in."""
PROGRAM = REPO / "devenv/vm"
RECIPE = "1"
# As dpkg unpacks, a folder of a package may be a link to one here.
UNPACK = 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"'


def inputs(suite: str, rootfs: Path) -> dict[str, str]:
    """Returns what the layer is made from; newer packages alone make no new one."""
    sources = {f"program {path.name}": path.read_text() for path in sorted(PROGRAM.glob("*.[ch]"))}
    return sources | {
        "suite": suite,
        "rootfs": rootfs.parent.name,
        "packages": " ".join(PACKAGES),
        "kept": " ".join(KEPT),
        "modules": " ".join(MODULES),
        "recipe": RECIPE,
    }


def archive(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Returns a cpio archive (newc) of entries: path, mode with file type, content."""
    made = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        made += b"070701" + b"".join(b"%08x" % value for value in fields) + path
        made += bytes(-len(made) % 4) + content
        made += bytes(-len(made) % 4)
    return bytes(made)


def initial_ram_disk(program: bytes, modules: Sequence[bytes]) -> bytes:
    """Returns the archive that the VM's kernel unpacks as its root: `/init`, and the modules by number."""
    files = [(f"{number}.ko", 0o100644, content) for number, content in enumerate(modules)]
    return archive([("dev", 0o040755, b""), ("init", 0o100755, program), *files])


def find_kernel(whole: Path) -> Path:
    """Returns the kernel among what the packages brought; newer ones have it beside its modules."""
    found = [*whole.glob("boot/vmlinuz-*"), *whole.glob("usr/lib/modules/*/vmlinuz")]
    if not found:
        raise SandboxError(f"{KERNEL_PACKAGE} brought no kernel", hint="correct devenv/host/vmlayer.py")
    return found[0]


def needed_modules(folder: Path) -> list[str]:
    """Returns which of the modules are not built into the kernel whose modules are in this folder."""
    builtin = (folder.parent / "modules.builtin").read_text().splitlines()
    return [name for name in MODULES if f"kernel/{name}.ko" not in builtin]


def read_module(folder: Path, name: str) -> bytes:
    """Returns a kernel module, unpacked. Raises SandboxError when the package has none of that name."""
    plain, packed = folder / f"{name}.ko", folder / f"{name}.ko.xz"
    if plain.exists():
        return plain.read_bytes()
    if packed.exists():
        return lzma.decompress(packed.read_bytes())
    raise SandboxError(f"the VM's kernel has no module {name}", hint="correct devenv/host/vmlayer.py")


def compile_program(target: Path) -> bytes:
    """Compiles the VM's program, static: there is nothing else in the VM."""
    sources = [str(path) for path in sorted(PROGRAM.glob("*.c"))]
    run(["gcc", "-O2", "-static", "-s", "-o", str(target), *sources])
    return target.read_bytes()


def build(progress: Progress, suite: str, rootfs: Path, draft: Path) -> None:
    """Fills a folder with `tree`, the layer."""
    work, tree = draft / "work", draft / "tree"
    for folder in (work, tree):
        folder.mkdir()
    with progress.task("vms", f"downloading QEMU and a kernel of {suite}", 10):
        packages = download_with_dependencies(PACKAGES, suite, work, rootfs)
    with progress.task("vms", "unpacking them", 10):
        whole = work / "whole"
        # As in the root file system: what old packages have in /lib comes to the rest in /usr/lib.
        (whole / "usr/lib").mkdir(parents=True)
        (whole / "lib").symlink_to("usr/lib")
        for package in packages:
            run(["sh", "-c", UNPACK, "sh", str(package), str(whole)])
        for name in KEPT:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(whole / name, tree / name)
        shutil.copy(find_kernel(whole), tree / "vmlinuz")
        folder = next((whole / "usr/lib/modules").glob("*/kernel"))
        modules = [read_module(folder, name) for name in needed_modules(folder)]
    (tree / "initramfs").write_bytes(initial_ram_disk(compile_program(work / "init"), modules))
    shutil.rmtree(work)


def obtain(store: Store, progress: Progress, suite: str, rootfs: Path) -> Path:
    """Returns the layer of a suite, built when the cache has none."""

    def fill(draft: Path) -> None:
        build(progress, suite, rootfs, draft)

    return store.obtain(f"vms-{suite}", inputs(suite, rootfs), fill) / "tree"
