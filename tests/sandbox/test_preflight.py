"""The sandbox's preflight refuses a cluster that only looks alive, and says the cause."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.cluster import CENTRAL, Cluster, eventually
from tests.sandbox.world import A, B

FIT = "preflight: every chassis is registered"


def preflight(cluster: Cluster) -> tuple[int, str]:
    """Exit code and what it said."""
    done = cluster.attempt("/usr/bin/python3", "-m", "devenv.guest.cluster", "preflight", timeout_s=120)
    return done.returncode, done.stdout + done.stderr


@contextlib.contextmanager
def broken(cluster: Cluster, node: str, harm: str, heal: str) -> Iterator[None]:
    """Something is broken inside the block, and works again afterwards."""
    cluster.run("sh", "-ec", harm, node=node)
    try:
        yield
    finally:
        cluster.run("sh", "-ec", heal, node=node)
    healed(cluster)


def healed(cluster: Cluster) -> None:
    """Returns when every chassis is back and follows the configuration."""
    words = ["--bare", "--columns=name", "list", "Chassis"]
    eventually("three chassis", lambda: cluster.sbctl(*words).count("ovn-") == 3)
    cluster.nbctl("--wait=hv", "sync")


def test_a_fit_cluster_passes(each: Cluster) -> None:
    code, said = preflight(each)
    assert (code, FIT in said) == (0, True), said


def test_a_daemon_that_does_not_run_is_named(trixie: Cluster) -> None:
    log = f"/run/ovnmig/{B}"
    start = (
        f"ovn-controller --no-chdir --detach --log-file={log}/log/ovn-controller.log "
        f"--pidfile={log}/ovn/ovn-controller.pid unix:{log}/ovs/db.sock"
    )
    with broken(trixie, B, f"kill -9 $(cat {log}/ovn/ovn-controller.pid)", start):
        code, said = preflight(trixie)
    assert code == 1
    assert f"{B}: ovn-controller does not run" in said


def test_a_chassis_missing_in_the_southbound_database_is_named(trixie: Cluster) -> None:
    with trixie.frozen(B, "ovn-controller"):
        trixie.sbctl("chassis-del", B)
        code, said = preflight(trixie)
    assert code == 1
    assert f"{B}: not in the Southbound database" in said
    healed(trixie)


def test_a_chassis_that_does_not_follow_the_configuration_is_named(trixie: Cluster) -> None:
    with trixie.frozen(B, "ovn-controller"):
        code, said = preflight(trixie)
    assert code == 1
    assert f"is not in force after 10 s on: {B}" in said
    healed(trixie)


def test_a_cut_underlay_cable_is_named(trixie: Cluster) -> None:
    with broken(trixie, A, "ip link set eth1 down", "ip link set eth1 up"):
        code, said = preflight(trixie)
    assert code == 1
    assert f"{A}: its cable to the underlay" in said


def test_a_tunnel_that_passes_no_packet_is_named(trixie: Cluster) -> None:
    words = ["--bare", "--columns=ip", "find", "Encap", f"chassis_name={B}"]
    address = trixie.sbctl(*words).strip()
    harm = f"ip route add blackhole {address}/32"
    with broken(trixie, A, harm, f"ip route del blackhole {address}/32"):
        code, said = preflight(trixie)
    assert code == 1
    assert f"{A} -> {B}: no packet passes the tunnel" in said


def test_a_datapath_without_conntrack_zones_is_refused(trixie: Cluster) -> None:
    turn = "ovs-appctl dpif/set-dp-features br-int ct_zone"
    with broken(trixie, A, f"{turn} false", f"{turn} true"):
        code, said = preflight(trixie)
    assert code == 1
    # Which of the two shows first is up to OVS: flows with a zone are refused, or entries land in zone 0.
    assert (
        f"{A} -> {B}: no packet passes" in said or f"{A}: the ping is not in connection tracking zone" in said
    )


@pytest.mark.parametrize("each", ["bookworm"], indirect=True)
def test_a_switch_without_upcall_handlers_is_named(each: Cluster, tmp_path: Path) -> None:
    # The real fault: OVS 3.1 counts no processor in the first 10 s of the kernel's life. (OVS 3.5 starts one
    # handler all the same.)
    clock = tmp_path / "young_clock.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", clock, Path(__file__).with_name("young_clock.c")], check=True
    )
    run = f"/run/ovnmig/{B}"
    start = (
        f"ovs-vswitchd unix:{run}/ovs/db.sock --pidfile={run}/ovs/ovs-vswitchd.pid --no-chdir --detach "
        f"--log-file={run}/log/ovs-vswitchd.log"
    )
    stop = f"kill -9 $(cat {run}/ovs/ovs-vswitchd.pid); sleep 0.5"
    inside = "/run/young_clock.so"
    each.channel.run(["sh", "-c", f"cat >{inside}"], stdin=clock.read_bytes(), check=True)
    with broken(each, B, f"{stop}; LD_PRELOAD={inside} {start}", f"{stop}; {start}; rm {inside}"):
        code, said = preflight(each)
    assert code == 1
    assert f"{B}: ovs-vswitchd has no upcall handler" in said


def test_a_healed_cluster_passes_and_the_preflight_leaves_no_trace(trixie: Cluster) -> None:
    assert preflight(trixie)[0] == 0
    assert "devenv-preflight" not in trixie.run("ovn-nbctl", "show", node=CENTRAL)
    assert "pf0" not in trixie.run("ovs-vsctl", "list-ports", "br-int", node=A)
