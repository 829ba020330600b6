"""What is written down about each VM stand-in, and the names derived from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

from devenv.guest.paths import run_dir, vm_file
from devenv.guest.plan import Node
from devenv.guest.shell import ClusterError


@dataclass(frozen=True, slots=True)
class Vm:
    """A VM as its file records it. `addresses` carry their prefix length; `on` is where it runs; `kind` is
    `namespace` for a stand-in, `qemu` for a real one."""

    name: str
    lsp: str
    mac: str
    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    chassis: tuple[str, ...]
    on: str
    kind: str = "namespace"

    @property
    def namespace(self) -> str:
        return self.name

    @property
    def tap(self) -> str:
        """The device in the chassis' namespace; the same name on each: each is a namespace of its own."""
        return tap_name(self.name)

    def port(self, node: Node) -> str:
        """The bridge port inside the VM that leads to that chassis."""
        return f"p{node.index}"


def tap_name(vm_name: str) -> str:
    """A device name (at most 15 characters) for a VM of any name."""
    return "v" + hashlib.sha256(vm_name.encode()).hexdigest()[:12]


def default_mac(vm_name: str) -> str:
    """A locally administered address that depends on the name only."""
    digest = hashlib.sha256(vm_name.encode()).hexdigest()
    return ":".join(["02", *(digest[i : i + 2] for i in range(0, 10, 2))])


def names() -> list[str]:
    return sorted(unquote(file.stem) for file in (run_dir() / "vms").glob("*.json"))


def load(name: str) -> Vm:
    """Raises ClusterError for a VM that does not exist."""
    try:
        data: dict[str, Any] = json.loads(vm_file(name).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ClusterError(f"no VM is called {name!r}; there are: {', '.join(names()) or 'none'}") from error
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
    }
    return Vm(**fields)


def save(vm: Vm) -> None:
    file = vm_file(vm.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(vm), indent=1), encoding="utf-8")
    draft.replace(file)
