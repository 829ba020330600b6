"""Real VMs: QEMU in a chassis' namespace with a tap in its br-int, and QEMU's own live migration.

QEMU works without help of the processor (`-accel tcg`), so this runs wherever the sandbox does. The layer in
/opt/vms brings QEMU and the small Linux that it runs (devenv/vm).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from devenv.guest import links, shell
from devenv.guest.plan import INNER_MTU, Node, Plan
from devenv.guest.qemurecord import Moved, add_move, folder, moves
from devenv.guest.qmp import Line, Qmp, clock_offset_s
from devenv.guest.shell import ClusterError, CommandError
from devenv.guest.vmrecord import Vm

LAYER = Path("/opt/vms")
MEMORY_MB = 96
CODE_CACHE_MB = 32
FIRST_PORT = 49152
"""Migrations come in at this port of the target, and the ones after it for other VMs."""
PORTS = 1024
MAX_PAUSE_MS = 100
"""QEMU stops the VM once the rest of its memory takes no longer than this, by QEMU's own reckoning."""
BOOT_TIMEOUT_S = 90.0
MIGRATION_TIMEOUT_S = 90.0
RESUME_TIMEOUT_S = 30.0
BOOTED = "vm: ready"


def place(vm: Vm, chassis: str) -> Path:
    """The folder of the VM's QEMU on that chassis: sockets `qmp` and `control`, files `console` and `pid`."""
    return folder(vm.name) / chassis


def check_layer() -> None:
    """Raises ClusterError in a sandbox that was started without the layer."""
    if not (LAYER / "vmlinuz").exists():
        raise ClusterError("there is no QEMU in this sandbox; start it with: devenv/sandbox up --vm qemu")


def command_line(vm: Vm, chassis: str, *, incoming: bool) -> list[str]:
    """QEMU's command line: as little of a machine as boots, migrates, and has a network card."""
    own = place(vm, chassis)
    words = f"console=ttyS0 quiet panic=-1 nokaslr mitigations=off addresses={','.join(vm.addresses)}"
    if vm.gateways:
        words += f" gateways={','.join(vm.gateways)}"
    argv = [str(LAYER / "usr/bin/qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-daemonize"]
    for name in ("qemu", "seabios"):
        argv += ["-L", str(LAYER / "usr/share" / name)]
    argv += ["-accel", f"tcg,thread=single,tb-size={CODE_CACHE_MB}", "-M", "pc", "-cpu", "max"]
    argv += ["-m", str(MEMORY_MB), "-display", "none", "-pidfile", str(own / "pid")]
    argv += ["-kernel", str(LAYER / "vmlinuz"), "-initrd", str(LAYER / "initramfs"), "-append", words]
    argv += ["-netdev", f"tap,id=n0,ifname={vm.tap},script=no,downscript=no,vhost=off"]
    argv += ["-device", f"virtio-net-pci,netdev=n0,mac={vm.mac},romfile="]
    argv += ["-serial", f"file:{own / 'console'}", "-serial", f"unix:{own / 'control'},server=on,wait=off"]
    argv += ["-qmp", f"unix:{own / 'qmp'},server=on,wait=off"]
    return [*argv, "-incoming", "defer"] if incoming else argv


def start(vm: Vm, chassis: str, *, incoming: bool = False) -> None:
    """Starts the VM's QEMU on that chassis; with `incoming` it waits there for the VM."""
    own = place(vm, chassis)
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    libraries = {"LD_LIBRARY_PATH": str(LAYER / "usr/lib/x86_64-linux-gnu")}
    shell.run(
        shell.in_namespace(chassis, command_line(vm, chassis, incoming=incoming)),
        env=libraries | {"TMPDIR": str(own)},
    )


def end(vm: Vm, chassis: str) -> None:
    """Ends the VM's QEMU on that chassis, whatever it does. None there is fine."""
    with suppress(FileNotFoundError, ValueError):
        links.kill(int((place(vm, chassis) / "pid").read_text(encoding="utf-8")))
    shutil.rmtree(place(vm, chassis), ignore_errors=True)


def build(plan: Plan, vm: Vm) -> None:
    """A tap on every chassis of the VM, and its QEMU on the one where it runs. It boots for some seconds."""
    check_layer()
    for node in (plan.node(name) for name in vm.chassis):
        lines = [f"tuntap add dev {vm.tap} mode tap", f"link set {vm.tap} mtu {INNER_MTU} addrgenmode none"]
        links.ip_batch([*lines, f"link set {vm.tap} up"], namespace=node.name)
    start(vm, vm.on)


def remove(vm: Vm) -> None:
    """Ends the VM and takes its taps away."""
    for chassis in vm.chassis:
        end(vm, chassis)
        with suppress(CommandError):
            links.ip_batch([f"link del {vm.tap}"], namespace=chassis)
    shutil.rmtree(folder(vm.name), ignore_errors=True)


def wait_booted(vm: Vm, timeout_s: float = BOOT_TIMEOUT_S) -> None:
    """Until the VM's program runs. Raises ClusterError with the last words of its console."""
    if moves(vm.name):
        # The console of a QEMU that it came to later tells nothing of that.
        return
    console = place(vm, vm.on) / "console"

    def said() -> str:
        return console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""

    try:
        shell.wait_until(f"{vm.name} to boot", lambda: BOOTED in said(), timeout_s=timeout_s)
    except ClusterError as error:
        raise ClusterError(f"{error}; its console: {said()[-500:]}") from error


def control(vm: Vm) -> Line:
    """A conversation with the VM's program, where it runs now; one at a time."""
    return Line(place(vm, vm.on) / "control")


def incoming_port(vm: Vm) -> int:
    """Two VMs may come to one chassis at once: the port depends on the VM."""
    return FIRST_PORT + int(vm.tap[1:], 16) % PORTS


def migrate(vm: Vm, source: str, target: Node, when_it_runs: Callable[[], object]) -> Moved:
    """Migrates the VM live and calls `when_it_runs` at once; returns what is known of the move.

    QEMU itself announces the VM on the target with RARP frames. Raises ClusterError when the migration fails:
    the VM then runs on at the source.
    """
    wait_booted(vm)
    start(vm, target.name, incoming=True)
    host = f"[{target.address}]" if target.address.version == 6 else str(target.address)
    address = f"tcp:{host}:{incoming_port(vm)}"
    with Qmp(place(vm, target.name) / "qmp") as there, Qmp(place(vm, source) / "qmp") as here:
        try:
            with Line(place(vm, source) / "control") as line:
                before_s = clock_offset_s(line)
            there.command("migrate-incoming", uri=address)
            here.command("migrate-set-parameters", downtime_limit=MAX_PAUSE_MS)
            here.command("migrate", uri=address)
            told = finished(here)
        except ClusterError:
            end(vm, target.name)
            raise
        shell.wait_until(
            f"{vm.name} to run on {target.name}",
            lambda: runs(there),
            timeout_s=RESUME_TIMEOUT_S,
            interval_s=0.005,
        )
        when_it_runs()
        with Line(place(vm, target.name) / "control") as line:
            after_s = clock_offset_s(line)
        moved = Moved(
            source=source,
            target=target.name,
            stopped_s=here.at("STOP"),
            resumed_s=there.at("RESUME"),
            guest_pause_ms=int(told["downtime"]),
            total_ms=int(told["total-time"]),
            offset_before_s=before_s,
            offset_after_s=after_s,
        )
    add_move(vm.name, moved)
    return moved


def runs(target: Qmp) -> bool:
    """Whether the VM was started there. The question makes QEMU tell its events first."""
    target.command("query-status")
    return target.at("RESUME") > 0


def finished(source: Qmp) -> dict[str, Any]:
    """QEMU's last word about a migration, once it is through. Raises ClusterError when it failed."""
    deadline_s = time.monotonic() + MIGRATION_TIMEOUT_S
    while (told := source.command("query-migrate"))["status"] != "completed":
        if told["status"] in ("failed", "cancelled"):
            reason = told.get("error-desc", "no reason given")
            raise ClusterError(f"QEMU's migration {told['status']}: {reason}")
        if time.monotonic() > deadline_s:
            source.command("migrate_cancel")
            raise ClusterError(f"QEMU's migration is not through after {MIGRATION_TIMEOUT_S:g} s: {told}")
        time.sleep(0.02)
    return dict(told)
