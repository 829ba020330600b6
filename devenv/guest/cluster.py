"""`python3 -m devenv.guest.cluster up|down|status|preflight|logs [NODE]`: the cluster as a whole."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence

from devenv.guest import daemons, links, outside, ovn, power, preflight, services, shell, vm, vmrecord
from devenv.guest.paths import NodePaths, options_file, render_env, run_dir
from devenv.guest.plan import Node, Plan, PlanError, plan_from
from devenv.guest.shell import ClusterError, CommandError

OPTIONS = (
    "CENTRAL_COUNT",
    "CENTRAL_PREFIX",
    "CHASSIS_COUNT",
    "CHASSIS_PREFIX",
    "ENABLE_SSL",
    "GW_COUNT",
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
REGISTER_TIMEOUT_S = 60.0


def _say(text: str) -> None:
    print(text, flush=True)


def up(env: Mapping[str, str]) -> None:
    """Builds the cluster and returns when every chassis has registered and ovnmig answers."""
    if options_file().exists():
        raise ClusterError("a cluster is up already; take it down first with: cluster down")
    options = {key: env[key] for key in OPTIONS if env.get(key)}
    plan = plan_from(options)
    began_s = time.monotonic()
    run_dir().mkdir(parents=True, exist_ok=True)
    options_file().write_text(render_env(options), encoding="utf-8")
    try:
        _bring_up(plan, began_s)
    except (ClusterError, CommandError) as error:
        hint = "what was made stays, to be looked at; remove it with: cluster down"
        raise ClusterError(f"{error}\n{hint}") from error
    _say(f"cluster: up after {time.monotonic() - began_s:.1f} s")


def _bring_up(plan: Plan, began_s: float) -> None:
    _say(f"cluster: {len(plan.nodes)} nodes: {', '.join(node.name for node in plan.nodes)}")
    links.build_switches(plan)
    for node in plan.nodes:
        links.connect_node(plan, node)
        daemons.write_node_env(plan, node)
    outside.build(plan)
    daemons.make_template()
    if plan.ssl:
        services.issue_certificates(plan)
    _say("cluster: starting databases, switches and controllers (about 10 s)")
    shell.in_parallel(lambda node: _start_node(plan, node), plan.nodes)
    _wait_for_chassis(plan)
    _say(f"cluster: every chassis is in the Southbound database after {time.monotonic() - began_s:.1f} s")
    if plan.services:
        _say("cluster: starting ovnmig on every node")
        services.start(plan)


def _start_node(plan: Plan, node: Node) -> None:
    if node.runs_ovs:
        daemons.start_chassis(plan, node)
    else:
        daemons.start_central(plan)


def _wait_for_chassis(plan: Plan) -> None:
    wanted = {node.name for node in plan.chassis}
    try:
        shell.wait_until(
            "every chassis to register",
            lambda: wanted <= ovn.chassis_names(plan),
            timeout_s=REGISTER_TIMEOUT_S,
        )
    except ClusterError as error:
        missing = ", ".join(sorted(wanted - ovn.chassis_names(plan)))
        raise ClusterError(
            f"not in the Southbound database: {missing}; read log/ovn-controller.log there"
        ) from error
    ovn.sync(plan)


def down() -> None:
    """Ends all processes of the cluster, removes its namespaces, bridges and files. None up is fine."""
    try:
        plan = ovn.current_plan()
    except ClusterError:
        _say("cluster: none is up")
        return
    services.stop_forwarder()
    for name in vmrecord.names():
        vm.delete(name)
    for node in plan.nodes:
        links.delete_namespace(node.name)
        daemons.remove_node_files(node)
    outside.remove()
    links.remove_switches()
    shutil.rmtree(run_dir())
    _say("cluster: down")


def status() -> bool:
    """Prints what runs on each node; True when nothing is missing."""
    plan = ovn.current_plan()
    healthy = True
    for node in plan.nodes:
        wanted = dict(daemons.pid_files(node))
        if plan.services:
            wanted["ovnmig"] = services.pid_file(node)
        found = {name: daemons.running_pid(file) for name, file in wanted.items()}
        parts = [f"{name} {'down' if pid is None else pid}" for name, pid in found.items()]
        healthy = healthy and None not in found.values()
        _say(f"{node.name:<20} {node.role.value:<8} {node.address!s:<16} {', '.join(parts)}")
    for name in vmrecord.names():
        machine = vmrecord.load(name)
        where = f"on {machine.on}, ports on {', '.join(machine.chassis)}"
        _say(f"{name:<20} vm       {' '.join(machine.addresses):<16} {where}")
    return healthy


def logs(node_name: str) -> None:
    """Prints the logs of a node, each headed by its name."""
    node = ovn.current_plan().node(node_name)
    for file in sorted(NodePaths.of(node.name).log.glob("*.log")):
        _say(f"==> {file.name} <==")
        _say(file.read_text(encoding="utf-8", errors="replace"))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 fine, 1 the cluster is not as it must be, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="devenv.guest.cluster", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("up", "down", "status", "preflight"):
        verbs.add_parser(verb)
    for verb in ("logs", "crash", "restart"):
        verbs.add_parser(verb).add_argument("node")
    args = parser.parse_args(argv)
    try:
        if args.verb == "up":
            up(os.environ)
        elif args.verb == "down":
            down()
        elif args.verb == "status":
            return 0 if status() else 1
        elif args.verb == "preflight":
            return _preflight()
        elif args.verb == "logs":
            logs(args.node)
        elif args.verb == "crash":
            power.crash(ovn.current_plan(), args.node)
        else:
            power.restart(ovn.current_plan(), args.node)
    except PlanError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 2
    except (ClusterError, CommandError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


def _preflight() -> int:
    causes = preflight.check(ovn.current_plan())
    for cause in causes:
        print(f"preflight: {cause}", file=sys.stderr)
    if not causes:
        _say("preflight: every chassis is registered, tracks connections and reaches every other")
    return 1 if causes else 0


if __name__ == "__main__":
    sys.exit(main())
