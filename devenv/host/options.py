"""The command line of `devenv/sandbox`: verbs, options, and the variables that stand in for options."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devenv.host.errors import EXIT_USAGE, SandboxError
from devenv.host.rootfs import SUITES

DEFAULT_NAME = "sandbox"
DEFAULT_PORT = 8787
DEFAULT_MEMORY_MB = 3072
DEFAULT_CHASSIS = 3
DEFAULT_GATEWAYS = 0
VM_KINDS = ("namespace", "qemu")
# Handed on to the cluster inside, in the manner of ovn-fake-multinode.
PASSED_VARIABLES = (
    "CENTRAL_COUNT",
    "CENTRAL_PREFIX",
    "CHASSIS_PREFIX",
    "ENABLE_SSL",
    "GW_PREFIX",
    "IP_CIDR",
    "IP_HOST",
    "IP_START",
    "OUTSIDE_VLAN",
    "OVNMIG_SERVICES",
    "OVN_DB_CLUSTER",
    "OVN_DP_TYPE",
    "OVN_MONITOR_ALL",
)

DESCRIPTION = """\
A real OVN cluster on any Linux machine, for ovnmig's demo and tests.

Every node (ovn-central-az1, ovn-gw-N, ovn-chassis-N) is a network namespace with its own Open vSwitch and
OVN daemons on the kernel datapath, inside a small guest kernel that runs as an ordinary program (User Mode
Linux). The first `up` builds kernel and root file system into the cache (about 5 minutes on two cores), later
ones take some 20 seconds. While it is up, ovnmig's REST API answers on 127.0.0.1:8787.
"""

EPILOG = """\
examples:
  devenv/sandbox up --suite bookworm            OVN 23.03 instead of 25.03
  devenv/sandbox exec ovn-chassis-1 -- ovs-vsctl show
  devenv/sandbox exec ovn-central-az1 -- ovn-nbctl show
  devenv/sandbox run my-script.sh               run a script of the host in the guest
  devenv/sandbox up --name other --port 8790    a second sandbox beside the first

variables: SUITE, CHASSIS_COUNT, GW_COUNT stand in for their options; these are handed on to the cluster:
{passed}

exit codes: 0 fine, 1 it failed, 2 wrong use, 3 the sandbox does not run, 4 it crashed, 5 it runs but its
cluster is not ready. `exec`, `run` and `demo` end with the code of what they ran.
"""


@dataclass(frozen=True)
class Options:
    """What the caller asked for."""

    verb: str
    name: str = DEFAULT_NAME
    suite: str = "trixie"
    backend: str = "auto"
    chassis: int = DEFAULT_CHASSIS
    gateways: int = DEFAULT_GATEWAYS
    port: int = DEFAULT_PORT
    memory_mb: int = DEFAULT_MEMORY_MB
    vm: str = VM_KINDS[0]
    as_json: bool = False
    keep: bool = False
    bare: bool = False
    stdin: bool = False
    lines: int = 200
    node: str | None = None
    words: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def cluster_environment(self) -> dict[str, str]:
        """Returns the variables of the cluster inside."""
        counts = {"CHASSIS_COUNT": str(self.chassis), "GW_COUNT": str(self.gateways), "SUITE": self.suite}
        return dict(self.variables) | counts


def _number(text: str, low: int, high: int, what: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise SandboxError(f"{what} is '{text}'", hint=f"give a number from {low} to {high}", code=EXIT_USAGE)
    return number


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser; options stand after the verb."""
    raw = argparse.RawDescriptionHelpFormatter
    passed = textwrap.fill(" ".join(PASSED_VARIABLES), 100, initial_indent="  ", subsequent_indent="  ")
    epilog = EPILOG.format(passed=passed)
    about = DESCRIPTION
    parser = argparse.ArgumentParser("devenv/sandbox", description=about, epilog=epilog, formatter_class=raw)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default=DEFAULT_NAME, help="which sandbox (default %(default)s)")

    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--suite", help="trixie: OVN 25.03 (default), bookworm: OVN 23.03, sid: the newest")
    made.add_argument("--chassis", help=f"chassis nodes (default {DEFAULT_CHASSIS})")
    made.add_argument("--gateways", help=f"gateway nodes beside them (default {DEFAULT_GATEWAYS})")
    made.add_argument(
        "--backend",
        choices=("auto", "uml", "host"),
        default="auto",
        help="uml: a guest kernel; host: this machine's own kernel, in private namespaces (untested where "
        "the kernel lacks openvswitch or geneve); auto (default): host where the kernel has both, else uml",
    )
    made.add_argument("--port", default=str(DEFAULT_PORT), help="loopback port of REST (default %(default)s)")
    made.add_argument("--memory", default=str(DEFAULT_MEMORY_MB), help="guest MB (default %(default)s)")
    made.add_argument(
        "--vm",
        choices=VM_KINDS,
        help="what VMs may be: namespaces (default); qemu: with what it takes to run real ones too",
    )
    made.add_argument("--keep", action="store_true", help="leave the sandbox running when something fails")

    up = verbs.add_parser(
        "up", parents=[named, made], help="build what is missing, boot, bring the cluster up"
    )
    up.add_argument("--bare", action="store_true", help="boot only, without a cluster")
    verbs.add_parser("down", parents=[named], help="power off; only the cache and out/ are left")
    status = verbs.add_parser("status", parents=[named], help="what runs; the exit code says it too")
    status.add_argument("--json", action="store_true", dest="as_json", help="for programs")
    execute = verbs.add_parser("exec", parents=[named], help="run a program on a node: exec NODE -- CMD...")
    execute.add_argument("-i", "--stdin", action="store_true", help="hand on standard input")
    execute.add_argument("node", help="a node, a namespace, or `guest` for the guest itself")
    execute.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="-- CMD...", help="the program and its arguments"
    )
    run = verbs.add_parser("run", parents=[named], help="run a script of this machine in the guest")
    run.add_argument("node", metavar="SCRIPT", help="the script; it may be outside the repository")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="ARG", help="its arguments")
    logs = verbs.add_parser("logs", parents=[named], help="logs of a node, or of the sandbox itself")
    logs.add_argument("node", nargs="?", help="a node; without one: console and services of the sandbox")
    logs.add_argument("--lines", default="200", help="last lines of each file (default %(default)s)")
    demo = verbs.add_parser(
        "demo", parents=[named, made], help="play the demo (starts a sandbox when none runs)"
    )
    demo.add_argument(
        "--scene", choices=("moves", "crash", "gap", "soak"), help="what is played (default: moves)"
    )
    demo.add_argument("words", nargs="*", metavar="-- ARG", help="handed on to the demo")
    build = verbs.add_parser("build", help="build what the cache lacks and boot nothing")
    build.add_argument("--suite", help="which suite's images (default trixie)")
    build.add_argument("--vm", choices=VM_KINDS, help="qemu: the layer for real VMs too")
    verbs.add_parser("clean", help="end all sandboxes and remove the cache")
    return parser


def parse(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Options:
    """Returns the options; raises SandboxError for a value that cannot be; argparse ends it for wrong use."""
    got = vars(build_parser().parse_args(argv))
    words = list(got.get("words") or [])
    if words and words[0] == "--":
        words = words[1:]
    if got.get("scene"):
        words = ["--scene", got["scene"], *words]
    vm = got.get("vm") or environ.get("VM") or VM_KINDS[0]
    if vm not in VM_KINDS:
        raise SandboxError(
            f"there is no VM of kind '{vm}'", hint=f"use {' or '.join(VM_KINDS)}", code=EXIT_USAGE
        )
    if got["verb"] == "demo" and vm != VM_KINDS[0]:
        words = ["--vm", vm, *words]
    if got["verb"] == "exec" and not words:
        hint = "devenv/sandbox exec NODE -- CMD..."
        raise SandboxError("no program was given", hint=hint, code=EXIT_USAGE)
    suite = got.get("suite") or environ.get("SUITE") or "trixie"
    if suite not in SUITES:
        raise SandboxError(f"there is no suite '{suite}'", hint=f"use {' or '.join(SUITES)}", code=EXIT_USAGE)
    chassis = got.get("chassis") or environ.get("CHASSIS_COUNT") or str(DEFAULT_CHASSIS)
    gateways = got.get("gateways") or environ.get("GW_COUNT") or str(DEFAULT_GATEWAYS)
    return Options(
        verb=got["verb"],
        name=got.get("name", DEFAULT_NAME),
        suite=suite,
        backend=got.get("backend", "auto"),
        chassis=_number(chassis, 0, 50, "the number of chassis"),
        gateways=_number(gateways, 0, 50, "the number of gateways"),
        port=_number(got.get("port", str(DEFAULT_PORT)), 1, 65535, "the port"),
        memory_mb=_number(got.get("memory", str(DEFAULT_MEMORY_MB)), 512, 65536, "the guest's memory in MB"),
        vm=vm,
        as_json=got.get("as_json", False),
        keep=got.get("keep", False),
        bare=got.get("bare", False),
        stdin=got.get("stdin", False),
        lines=_number(got.get("lines", "200"), 1, 10_000_000, "the number of lines"),
        node=got.get("node"),
        words=tuple(words),
        variables={key: environ[key] for key in PASSED_VARIABLES if environ.get(key)},
    )
