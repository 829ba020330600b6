"""What each verb of `devenv/sandbox` does; returns the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from devenv.host import images, machine, state
from devenv.host.channel import Channel
from devenv.host.errors import (
    EXIT_CRASHED,
    EXIT_FAILED,
    EXIT_NOT_READY,
    EXIT_NOT_RUNNING,
    EXIT_USAGE,
    ChannelError,
    SandboxError,
)
from devenv.host.logs import save_logs, show_logs
from devenv.host.options import Options
from devenv.host.paths import OUT, REPO, cache_dir, run_dir
from devenv.host.progress import Lines, Progress
from devenv.host.store import remove_tree

CLUSTER = ("/usr/bin/python3", "-m", "devenv.guest.cluster")
DEMO = ("/opt/ovnmig/bin/python", "-m", "devenv.demo", "--out", "/out/demo")
CLUSTER_USUALLY_S = 20.0
CLUSTER_TIMEOUT_S = 300.0
START_HINT = "start it with: devenv/sandbox up"


def write_out(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_err(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def shell_code(code: int) -> int:
    """Returns an exit code as a shell tells it: 128 and the signal's number for a signal."""
    return 128 - code if code < 0 else code


def require_root() -> None:
    """Raises SandboxError for a caller who may not make namespaces and install packages."""
    if os.geteuid() != 0:
        raise SandboxError("the sandbox needs root", hint="run it as root, for example with sudo")


def up(options: Options) -> int:
    """Builds, boots, brings the cluster up. A sandbox that already is as asked stays as it is."""
    require_root()
    progress = Progress()
    with machine.alone(options.name):
        current = state.load(options.name)
        if current and current.alive():
            return already_up(options, current)
        if machine.stop(options.name):
            progress.say("sandbox", "removed what a crashed sandbox left")
        chosen = machine.chosen_backend(options)
        machine.listen_rest(options.port).close()
        found = images.obtain(
            progress, options.suite, with_kernel=chosen == "uml", with_vms=options.vm == "qemu"
        )
        with progress.task("sandbox", f"booting {options.suite} ({chosen})", 3):
            current = machine.start(options, found, chosen)
        if not options.bare:
            try:
                bring_cluster_up(options, progress)
            except BaseException as error:
                saved = save_logs(options.name)
                if not options.keep:
                    machine.stop(options.name)
                if isinstance(error, SandboxError):
                    error.hint = error.hint or f"the logs of all nodes are in {saved}"
                raise
            current.made_ready().save()
    progress.say("sandbox", f"up; REST: http://127.0.0.1:{options.port}/v1/udns")
    return 0


def already_up(options: Options, current: state.State) -> int:
    """Says that a sandbox runs; raises SandboxError when it is another one than asked for."""
    asked = (options.suite, options.chassis, options.gateways, options.port)
    if asked != (current.suite, current.chassis, current.gateways, current.port):
        raise SandboxError(
            f"'{current.name}' already runs: {current.suite}, {current.chassis} chassis, "
            f"{current.gateways} gateways, port {current.port}",
            hint="end it with `devenv/sandbox down`, or give this one another --name and --port",
        )
    if options.vm == "qemu" and current.vm != "qemu":
        hint = "end it with `devenv/sandbox down`, then start it with --vm qemu"
        raise SandboxError(f"'{current.name}' runs without what QEMU needs", hint=hint)
    if not current.ready and not options.bare:
        hint = "end it with `devenv/sandbox down`, then start it again"
        raise SandboxError(f"'{current.name}' runs without a ready cluster", hint=hint)
    print(f"'{current.name}' is up already")
    return 0


def bring_cluster_up(options: Options, progress: Progress) -> None:
    """Starts the cluster inside and checks it; raises SandboxError with its own words when it fails."""
    channel = Channel.of(options.name)
    env = options.cluster_environment()
    steps = (("up", "bringing the cluster up", CLUSTER_USUALLY_S), ("preflight", "checking it", 5.0))
    for verb, what, usual_s in steps:
        command, limit_s = [*CLUSTER, verb], CLUSTER_TIMEOUT_S
        with progress.task("cluster", what, usual_s):
            told = Lines(lambda line: progress.say("guest", line))
            code = channel.stream(command, told.feed, told.feed, env=env, timeout_s=limit_s)
            if code != 0:
                words = "\n".join(f"  {line}" for line in told.last)
                raise SandboxError(f"{what} failed with {shell_code(code)}:\n{words}")


def down(options: Options) -> int:
    """Powers off and removes what the sandbox had on this machine."""
    with machine.alone(options.name):
        there = machine.stop(options.name)
    print(f"'{options.name}' is down" if there else f"'{options.name}' does not run")
    return 0


def status(options: Options) -> int:
    """Says what runs."""
    current = state.load(options.name)
    if current is None:
        return tell(options, {"name": options.name, "state": "down"}, EXIT_NOT_RUNNING, START_HINT)
    document = asdict(current)
    document["rest"] = f"http://127.0.0.1:{current.port}"
    if not current.alive():
        words = machine.last_words(run_dir(options.name), 5)
        hint = f"`devenv/sandbox down` cleans up. Its last words:\n{words}"
        return tell(options, document | {"state": "crashed"}, EXIT_CRASHED, hint)
    channel = Channel.of(options.name)
    try:
        document["uptime_s"] = channel.ping()
    except ChannelError as error:
        hint = f"{error}; `devenv/sandbox down` ends it"
        return tell(options, document | {"state": "hung"}, EXIT_CRASHED, hint)
    document["kernel"] = channel.run(["uname", "-r"]).stdout.strip()
    if not current.ready:
        return tell(options, document | {"state": "not ready"}, EXIT_NOT_READY, "its cluster is not up")
    told = channel.run([*CLUSTER, "status"], timeout_s=30)
    document["nodes"] = told.stdout.splitlines()
    healthy = told.returncode == 0
    word, code = ("up", 0) if healthy else ("not ready", EXIT_NOT_READY)
    return tell(options, document | {"state": word}, code, "" if healthy else told.stderr.strip())


def tell(options: Options, document: dict[str, object], code: int, hint: str) -> int:
    """Prints a status for a person or a program."""
    if options.as_json:
        print(json.dumps(document | {"exit_code": code}, indent=1))
        return code
    print(f"sandbox '{document['name']}': {document['state']}")
    if "rest" in document:
        kernel = f"{document['kernel'] or '?'} ({document['backend']})"
        print(f"  {document['suite']}, OVN {document['ovn']}, kernel {kernel}, process {document['pid']}")
        print(f"  REST {document['rest']}")
    nodes = document.get("nodes")
    if isinstance(nodes, list):
        print("\n".join(f"  {line}" for line in nodes))
    if hint:
        print(f"  {hint}")
    return code


def execute(options: Options) -> int:
    """Runs a program on a node."""
    source = sys.stdin.buffer if options.stdin else None
    channel = Channel.of(options.name)
    return shell_code(channel.stream(options.words, write_out, write_err, node=options.node, stdin=source))


def run_script(options: Options) -> int:
    """Runs a script of this machine in the guest: by its path in /src, or as a copy when it is elsewhere."""
    assert options.node is not None
    script = Path(options.node).resolve()
    if not script.is_file():
        hint = "give the path of a file"
        raise SandboxError(f"there is no script {options.node}", hint=hint, code=EXIT_USAGE)
    channel = Channel.of(options.name)
    if script.is_relative_to(REPO):
        target = f"/src/{script.relative_to(REPO)}"
        if not os.access(script, os.X_OK):
            raise SandboxError(f"{options.node} is not executable", hint=f"chmod +x {options.node}")
    else:
        target = channel.run(["mktemp", "-p", "/tmp", f"XXXXXX-{script.name}"], check=True).stdout.strip()
        copy = 'cat >"$1" && chmod 755 "$1"'
        channel.run(["sh", "-c", copy, "sh", target], stdin=script.read_bytes(), check=True)
    return shell_code(channel.stream([target, *options.words], write_out, write_err))


def logs(options: Options) -> int:
    """Shows the logs of a node, or of the sandbox itself."""
    return show_logs(options.name, options.node, options.lines, write_out)


def demo(options: Options) -> int:
    """Plays the demo; a sandbox that it had to start is ended again."""
    current = state.load(options.name)
    ours = not (current and current.alive() and current.ready)
    if ours:
        up(options)
    (OUT / "demo").mkdir(parents=True, exist_ok=True)
    code = EXIT_FAILED
    try:
        env = {"SUITE": options.suite}
        command = [*DEMO, *options.words]
        code = shell_code(Channel.of(options.name).stream(command, write_out, write_err, env=env))
    finally:
        if code != 0:
            print(f"the logs of all nodes are in {save_logs(options.name)}", file=sys.stderr)
        if ours and not (code and options.keep):
            down(options)
    return code


def build(options: Options) -> int:
    """Builds kernel, root file system and environment of the suite where the cache lacks them."""
    require_root()
    progress = Progress()
    chosen = machine.chosen_backend(options)
    images.obtain(progress, options.suite, with_kernel=chosen == "uml", with_vms=options.vm == "qemu")
    progress.say("images", f"all that a {options.suite} sandbox needs is in {cache_dir()}")
    return 0


def clean(_: Options) -> int:
    """Ends every sandbox and removes the cache."""
    for name in state.names():
        with machine.alone(name):
            machine.stop(name)
    folder = cache_dir()
    remove_tree(folder)
    print(f"removed {folder}")
    return 0


VERBS: dict[str, Callable[[Options], int]] = {
    "up": up,
    "down": down,
    "status": status,
    "exec": execute,
    "run": run_script,
    "logs": logs,
    "demo": demo,
    "build": build,
    "clean": clean,
}
