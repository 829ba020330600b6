"""The daemons of one node, started as packages start them: real, detached, each in its own run directory."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from devenv.guest import links
from devenv.guest.paths import (
    NodePaths,
    node_env_file,
    node_environment,
    pki_dir,
    read_node_env,
    render_env,
    run_dir,
)
from devenv.guest.plan import (
    NB_PORT,
    OVS_PROVIDER_BRIDGE,
    PHYSICAL_NETWORK,
    PROVIDER_LINK,
    SB_PORT,
    Node,
    Plan,
    Role,
)
from devenv.guest.shell import ClusterError, on_node, run

OVS_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
NB_SCHEMA = Path("/usr/share/ovn/ovn-nb.ovsschema")
SB_SCHEMA = Path("/usr/share/ovn/ovn-sb.ovsschema")

# Where people look for logs; a link to the node's own directory.
SYSTEM_LOG_DIR = Path("/var/log/ovnmig")
# ovs-vswitchd counts the processors through a cache that looks fresh in the first 10 s of CLOCK_MONOTONIC: so
# early it finds none, starts no upcall handler, and every packet without a datapath flow is lost for good.
OVS_MIN_UPTIME_S = 11.0
# Longer than the defaults: one slow processor must not make OVN drop its connections.
PROBE_MS = 30_000
START_TIMEOUT_S = 60.0
# As ovs-ctl and ovn-ctl start them. Without it BFD at 200 ms flaps on one busy processor.
PRIORITY = ("nice", "-n", "-10")


def remove_node_files(node: Node) -> None:
    """What `write_node_env` made outside the run directory."""
    (SYSTEM_LOG_DIR / node.name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        SYSTEM_LOG_DIR.rmdir()


def write_node_env(plan: Plan, node: Node) -> None:
    """The node's directories and its environment file."""
    NodePaths.of(node.name).make()
    link = SYSTEM_LOG_DIR / node.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(NodePaths.of(node.name).log)
    path = node_env_file(node.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_env(node_environment(plan, node)), encoding="utf-8")


def wait_for_uptime(minimum_s: float = OVS_MIN_UPTIME_S) -> None:
    """Sleeps until the kernel is old enough for ovs-vswitchd."""
    uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    if uptime_s < minimum_s:
        time.sleep(minimum_s - uptime_s)


def _start(node: Node, argv: Sequence[str], log: str) -> None:
    # The control sockets keep their default names (<program>.<pid>.ctl): that is where ovs-appctl looks.
    daemon = [*argv, "--no-chdir", "--detach", f"--log-file={NodePaths.of(node.name).log / log}"]
    on_node(node.name, daemon, timeout_s=START_TIMEOUT_S)


def _new_database(path: Path, schema: Path) -> None:
    if not schema.exists():
        raise ClusterError(f"{schema} is missing: install openvswitch-switch, ovn-central and ovn-host")
    if not path.exists():
        run(["ovsdb-tool", "create", str(path), str(schema)])


def _certificate_options(name: str) -> list[str]:
    pki = pki_dir()
    return [
        f"--private-key={pki / name}.key",
        f"--certificate={pki / name}.crt",
        f"--ca-cert={pki / 'ca.crt'}",
    ]


def start_central(plan: Plan) -> None:
    """Northbound and Southbound database servers and northd on the central node."""
    node = plan.central
    paths = NodePaths.of(node.name)
    ssl = _certificate_options(node.name) if plan.ssl else []
    for name, schema, database, table in (
        ("ovnnb_db", NB_SCHEMA, "OVN_Northbound", "NB_Global"),
        ("ovnsb_db", SB_SCHEMA, "OVN_Southbound", "SB_Global"),
    ):
        file = paths.db / f"{name}.db"
        _new_database(file, schema)
        server = [
            "ovsdb-server",
            str(file),
            f"--remote=punix:{paths.ovn / name}.sock",
            f"--remote=db:{database},{table},connections",
            f"--unixctl={paths.ovn / name}.ctl",
            f"--pidfile={paths.ovn / name}.pid",
            *ssl,
        ]
        _start(node, server, f"{name}.log")
    passive = f"p{plan.scheme}"
    any_host = "[::]" if node.address.version == 6 else "0.0.0.0"
    for tool, port in (("ovn-nbctl", NB_PORT), ("ovn-sbctl", SB_PORT)):
        target = f"{passive}:{port}:{any_host}"
        probe = ["--", "set", "connection", ".", f"inactivity_probe={PROBE_MS}"]
        on_node(node.name, [tool, "--timeout=30", "init"])
        on_node(node.name, [tool, "set-connection", target, *probe])
    env = read_node_env(node.name)
    northd = [
        "ovn-northd",
        f"--ovnnb-db={env['OVN_NB_DB']}",
        f"--ovnsb-db={env['OVN_SB_DB']}",
        f"--pidfile={paths.ovn / 'ovn-northd.pid'}",
    ]
    _start(node, northd, "ovn-northd.log")


def external_ids(plan: Plan, node: Node) -> dict[str, str]:
    """What OVN reads from the node's own database."""
    ids = {
        "system-id": node.name,
        "hostname": node.name,
        "ovn-remote": plan.remote(SB_PORT),
        "ovn-encap-type": "geneve",
        "ovn-encap-ip": str(node.address),
        "ovn-bridge": "br-int",
        "ovn-bridge-datapath-type": plan.datapath,
        "ovn-bridge-mappings": f"{PHYSICAL_NETWORK}:{OVS_PROVIDER_BRIDGE}",
        "ovn-monitor-all": "true" if plan.monitor_all else "false",
        "ovn-remote-probe-interval": str(PROBE_MS),
        "ovn-openflow-probe-interval": str(PROBE_MS // 1000),
    }
    if node.role is Role.GATEWAY:
        ids["ovn-cms-options"] = "enable-chassis-as-gw"
    return ids


def start_ovs_database(plan: Plan, node: Node) -> None:
    """The node's own ovsdb-server with the configuration OVN reads; ovs-vswitchd is not needed yet."""
    paths = NodePaths.of(node.name)
    file = paths.db / "conf.db"
    template = run_dir() / "conf.db"
    if not file.exists():
        shutil.copyfile(template, file)
    server = [
        "ovsdb-server",
        str(file),
        f"--remote=punix:{paths.ovs / 'db.sock'}",
        f"--pidfile={paths.ovs / 'ovsdb-server.pid'}",
    ]
    _start(node, server, "ovsdb-server.log")
    ids = [f"external_ids:{key}={json.dumps(value)}" for key, value in external_ids(plan, node).items()]
    bridge = OVS_PROVIDER_BRIDGE
    configure = ["ovs-vsctl", "--no-wait", "init", "--", "set", "Open_vSwitch", ".", *ids]
    configure += ["--", "--may-exist", "add-br", bridge]
    configure += ["--", "set", "Bridge", bridge, f"datapath_type={plan.datapath}"]
    configure += [f'other_config:hwaddr="{node.provider_mac}"', "fail_mode=standalone"]
    configure += ["--", "--may-exist", "add-port", bridge, PROVIDER_LINK]
    on_node(node.name, configure)


def start_switch(node: Node) -> None:
    """ovs-vswitchd; its kernel datapath belongs to the namespace it runs in."""
    paths = NodePaths.of(node.name)
    switch = [
        *PRIORITY,
        "ovs-vswitchd",
        f"unix:{paths.ovs / 'db.sock'}",
        f"--pidfile={paths.ovs / 'ovs-vswitchd.pid'}",
    ]
    _start(node, switch, "ovs-vswitchd.log")


def start_controller(plan: Plan, node: Node) -> None:
    """ovn-controller; it has no --unixctl, its socket is ovn-controller.<pid>.ctl in OVN_RUNDIR."""
    paths = NodePaths.of(node.name)
    ssl = _certificate_options(node.name) if plan.ssl else []
    controller = [*PRIORITY, "ovn-controller", f"unix:{paths.ovs / 'db.sock'}"]
    controller += [f"--pidfile={paths.ovn / 'ovn-controller.pid'}", *ssl]
    _start(node, controller, "ovn-controller.log")


def make_template() -> None:
    """One empty OVS database that every node copies."""
    template = run_dir() / "conf.db"
    template.parent.mkdir(parents=True, exist_ok=True)
    _new_database(template, OVS_SCHEMA)


def start_chassis(plan: Plan, node: Node) -> None:
    """All three daemons of a chassis, in their order."""
    start_ovs_database(plan, node)
    wait_for_uptime()
    start_switch(node)
    start_controller(plan, node)


def pid_files(node: Node) -> dict[str, Path]:
    """Every daemon the node must have, with its pid file."""
    paths = NodePaths.of(node.name)
    if node.role is Role.CENTRAL:
        return {name: paths.ovn / f"{name}.pid" for name in ("ovnnb_db", "ovnsb_db", "ovn-northd")}
    return {
        "ovsdb-server": paths.ovs / "ovsdb-server.pid",
        "ovs-vswitchd": paths.ovs / "ovs-vswitchd.pid",
        "ovn-controller": paths.ovn / "ovn-controller.pid",
    }


def running_pid(pid_file: Path) -> int | None:
    """The process of a pid file, None when there is no file or no such process."""
    try:
        pid = int(pid_file.read_text(encoding="ascii").strip())
    except (FileNotFoundError, ValueError):
        return None
    return pid if links.is_alive(pid) else None
