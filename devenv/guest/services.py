"""ovnmig itself on the cluster: an agent on every chassis, the controller on the central node.

Only commands and documented settings of ovnmig are used, as an operator would: nothing is imported from it.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devenv.guest import links, shell
from devenv.guest.daemons import running_pid
from devenv.guest.paths import NodePaths, pki_dir, read_node_env, run_dir
from devenv.guest.plan import Node, Plan
from devenv.guest.shell import ClusterError, in_namespace, run

API_PORT = 8787
READY_TIMEOUT_S = 60.0
_FORWARDER = "forwarder"


def ovnmig_argv(*words: str) -> list[str]:
    """The ovnmig command; OVNMIG_PYTHON names another interpreter than the guest's."""
    return [os.environ.get("OVNMIG_PYTHON") or "/opt/ovnmig/bin/python", "-m", "ovnmig", *words]


def issue_certificates(plan: Plan) -> None:
    """A small CA, a certificate per chassis, and one for the controller and databases on the central node."""
    pki = pki_dir()
    if (pki / "ca.crt").exists():
        return
    run(ovnmig_argv("pki", "init", "--dir", str(pki)))
    for node in plan.nodes:
        role = [] if node.runs_ovs else ["--controller"]
        words = ["pki", "issue", node.name, "--dir", str(pki), "--address", str(node.address), *role]
        run(ovnmig_argv(*words))


def agent_environment(node: Node) -> dict[str, str]:
    """Settings of `ovnmig agent` on that node; its name and address it reads from the node's own database."""
    return {
        "OVNMIG_AGENT_OVS_RUNDIR": str(NodePaths.of(node.name).ovs),
        "OVNMIG_AGENT_PKI_DIR": str(pki_dir()),
    }


def controller_environment(node: Node) -> dict[str, str]:
    """Settings of `ovnmig serve` on the central node; the databases are on its unix sockets."""
    env = read_node_env(node.name)
    return {
        "OVNMIG_NB": env["OVN_NB_DB"],
        "OVNMIG_SB": env["OVN_SB_DB"],
        "OVNMIG_PKI_DIR": str(pki_dir()),
        "OVNMIG_CERTIFICATE": node.name,
        "OVNMIG_HISTORY_FILE": str(NodePaths.of(node.name).db / "history.sqlite"),
    }


def pid_file(node: Node) -> Path:
    """The service of a node: the agent on a chassis, the controller on the central node."""
    return NodePaths.of(node.name).ovn / "ovnmig.pid"


def _spawn(argv: list[str], env: Mapping[str, str], log: Path, pids: Path) -> None:
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **env},
            start_new_session=True,
        )
    pids.write_text(f"{process.pid}\n", encoding="ascii")


def start_node_service(node: Node) -> None:
    """Starts the node's service; one that runs already stays. Its log is log/ovnmig.log of the node."""
    if running_pid(pid_file(node)) is not None:
        return
    env = read_node_env(node.name)
    env |= agent_environment(node) if node.runs_ovs else controller_environment(node)
    argv = ovnmig_argv("agent" if node.runs_ovs else "serve")
    _spawn(in_namespace(node.name, argv), env, NodePaths.of(node.name).log / "ovnmig.log", pid_file(node))


def stop_node_service(node: Node, *, force: bool = False) -> None:
    """Ends it in order (SIGTERM), or with `force` as `kill -9` does."""
    pid = running_pid(pid_file(node))
    if pid is not None and not force:
        run(["kill", "-TERM", str(pid)])
        shell.wait_until(f"ovnmig on {node.name} to end", lambda: not links.is_alive(pid), timeout_s=15)
    elif pid is not None:
        links.kill(pid)
    pid_file(node).unlink(missing_ok=True)


def _start_forwarder(central: Node) -> None:
    """The guest's own 127.0.0.1:8787, where the host's relay ends, leads to the one of the central node."""
    inside = f"nsenter --net={shell.NETNS_DIR / central.name} -- socat STDIO TCP:127.0.0.1:{API_PORT}"
    argv = ["socat", f"TCP-LISTEN:{API_PORT},bind=127.0.0.1,fork,reuseaddr", f'EXEC:"{inside}"']
    _spawn(argv, {}, run_dir() / "forwarder.log", run_dir() / f"{_FORWARDER}.pid")


def start(plan: Plan) -> None:
    """Everything of ovnmig. Returns when it is ready, by its own account, through the forwarder."""
    issue_certificates(plan)
    for node in plan.chassis:
        start_node_service(node)
    start_node_service(plan.central)
    _start_forwarder(plan.central)
    try:
        shell.wait_until("ovnmig to be ready", lambda: not shortcomings(plan), timeout_s=READY_TIMEOUT_S)
    except ClusterError as error:
        log = NodePaths.of(plan.central.name).log / "ovnmig.log"
        said = log.read_text(encoding="utf-8", errors="replace")[-1500:]
        found = "; ".join(shortcomings(plan))
        raise ClusterError(f"{error}: {found}; the controller's last words: {said}") from error


def shortcomings(plan: Plan) -> list[str]:
    """What the running ovnmig lacks, by its own account; empty when controller and all agents are ready."""
    try:
        ready = _get("/readyz")
        nodes = _get("/v1/nodes")["nodes"]
    except (OSError, ValueError) as error:
        return [f"the REST API does not answer: {error}"]
    up = {str(node["chassis"]) for node in nodes if node["agent_up"]}
    found = [str(problem) for problem in ready["problems"]]
    return found + [f"the agent of {node.name} is not up" for node in plan.chassis if node.name not in up]


def _get(path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{API_PORT}{path}", timeout=10) as answer:
            document: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        # A service that is not ready says why in the body.
        document = json.load(error)
        if "problems" not in document or path != "/readyz":
            raise
    return document


def stop_forwarder() -> None:
    pid = running_pid(run_dir() / f"{_FORWARDER}.pid")
    if pid is not None:
        links.kill(pid)
