"""The layer for real VMs: the archive that their kernel unpacks, and what makes a new layer."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from devenv.host import vmlayer
from devenv.host.errors import SandboxError
from devenv.host.store import content_key


def unpacked(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """The entries of a cpio archive (newc): every header and every content begins at a multiple of four."""
    at = 0
    while at < len(data):
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = data[at + 110 : at + 110 + fields[11] - 1].decode()
        at += -(-(110 + fields[11]) // 4) * 4
        yield name, fields[1], data[at : at + fields[6]]
        at += -(-fields[6] // 4) * 4


def test_the_ram_disk_holds_the_program_the_modules_and_a_folder_for_devices() -> None:
    made = vmlayer.initial_ram_disk(b"program", [b"odd", b"even"])
    assert list(unpacked(made)) == [
        ("dev", 0o040755, b""),
        ("init", 0o100755, b"program"),
        ("0.ko", 0o100644, b"odd"),
        ("1.ko", 0o100644, b"even"),
        ("TRAILER!!!", 0, b""),
    ]


def test_a_module_is_found_plain_or_packed(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/plain.ko").write_bytes(b"one")
    (tmp_path / "net/packed.ko.xz").write_bytes(lzma.compress(b"two"))
    assert vmlayer.read_module(tmp_path, "net/plain") == b"one"
    assert vmlayer.read_module(tmp_path, "net/packed") == b"two"
    with pytest.raises(SandboxError, match="net/none"):
        vmlayer.read_module(tmp_path, "net/none")


@pytest.mark.parametrize("place", ["boot/vmlinuz-6.1", "usr/lib/modules/7.2/vmlinuz"])
def test_the_kernel_is_found_where_old_and_new_packages_have_it(tmp_path: Path, place: str) -> None:
    with pytest.raises(SandboxError, match="no kernel"):
        vmlayer.find_kernel(tmp_path)
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).touch()
    assert vmlayer.find_kernel(tmp_path) == tmp_path / place


def test_modules_that_a_kernel_has_built_in_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "modules.builtin").write_text("kernel/drivers/virtio/virtio.ko\nkernel/net/core/other.ko\n")
    needed = vmlayer.needed_modules(tmp_path / "kernel")
    assert "drivers/virtio/virtio" not in needed
    assert needed[-1] == "drivers/net/virtio_net"
    assert len(needed) == len(vmlayer.MODULES) - 1


def test_another_root_file_system_suite_or_program_makes_another_layer() -> None:
    one, two = Path("/cache/images/rootfs-1/tree"), Path("/cache/images/rootfs-2/tree")
    inputs = vmlayer.inputs("trixie", one)
    assert content_key(inputs) != content_key(vmlayer.inputs("trixie", two))
    assert content_key(inputs) != content_key(vmlayer.inputs("bookworm", one))
    assert "int main" in inputs["program main.c"]
