"""Builds the guest's root file system: a folder with Debian and OVN. The suite decides OVN's version."""

from __future__ import annotations

from pathlib import Path

from devenv.host.apt import KEYRING, discover, passed_options, run
from devenv.host.errors import EXIT_USAGE, SandboxError
from devenv.host.progress import Progress
from devenv.host.store import Store

# sid moves: what `make test` runs on are the other two.
SUITES = {"trixie": "OVN 25.03", "bookworm": "OVN 23.03", "sid": "OVN 26.03 or newer"}
PACKAGES = (
    "openvswitch-switch",
    "ovn-central",
    "ovn-host",
    "iproute2",
    "conntrack",
    "conntrackd",
    "frr",
    "python3",
    "python3-venv",
    "tcpdump",
    "socat",
    "iputils-ping",
    "iputils-arping",
    "procps",
    "iperf3",
    "nftables",
    "kmod",
    "ethtool",
    "curl",
    "mount",
    "util-linux",
    "openssl",
    "ca-certificates",
)
# Folders that are mounted over: the repository, its out/, the virtual environment.
MOUNT_POINTS = ("src", "out", "opt/ovnmig")
EXCLUDED = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
RECIPE = "1"


def inputs(suite: str) -> dict[str, str]:
    """Returns what the root file system is made from; newer packages of the suite alone make no new one."""
    return {"suite": suite, "packages": " ".join(PACKAGES), "excluded": " ".join(EXCLUDED), "recipe": RECIPE}


def build(progress: Progress, suite: str, draft: Path) -> None:
    """Fills a folder with `tree`, the root file system, and `versions`, its packages."""
    if not KEYRING.exists():
        raise SandboxError(f"{KEYRING} is missing", hint="apt-get install debian-archive-keyring")
    tree = draft / "tree"
    options = ['APT::Install-Recommends "false"', 'Acquire::Languages "none"', *passed_options()]
    command = ["mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", f"--keyring={KEYRING}"]
    command += [f"--include={','.join(PACKAGES)}"]
    command += [f"--aptopt={option}" for option in options]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    command += [suite, str(tree), *discover().sources(suite)]
    with progress.task("rootfs", f"installing Debian {suite} with {SUITES[suite]} into a folder", 45):
        run(["nice", *command])
    for name in MOUNT_POINTS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    query = ["dpkg-query", f"--admindir={tree}/var/lib/dpkg", "-W", "-f=${Package} ${Version}\\n"]
    (draft / "versions").write_text(run(query))


def obtain(store: Store, progress: Progress, suite: str) -> Path:
    """Returns the root file system of a suite, built when the cache has none."""
    if suite not in SUITES:
        raise SandboxError(
            f"there is no suite '{suite}'", hint=f"use one of: {', '.join(SUITES)}", code=EXIT_USAGE
        )
    kind = f"rootfs-{suite}"
    return store.obtain(kind, inputs(suite), lambda draft: build(progress, suite, draft)) / "tree"


def versions(tree: Path) -> dict[str, str]:
    """Returns the packages of a root file system and their versions."""
    lines = (tree.parent / "versions").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)
