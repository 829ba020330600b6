"""The command line of the cluster where no cluster runs, and what a node's processes are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from devenv.guest import cluster, daemons, links, outside, services, shell
from devenv.guest.daemons import pid_files, running_pid
from devenv.guest.plan import plan_from

PLAN = plan_from({"GW_COUNT": "1"})


@pytest.fixture(autouse=True)
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVNMIG_RUN", str(tmp_path / "run"))
    return tmp_path


@pytest.mark.parametrize("verb", [["status"], ["preflight"], ["logs", "x"], ["crash", "x"], ["restart", "x"]])
def test_without_a_cluster_a_verb_says_so(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.main(verb) == 1
    assert "no cluster is up" in capsys.readouterr().err


def test_taking_down_nothing_is_fine() -> None:
    assert cluster.main(["down"]) == 0


def test_wrong_options_stop_up_before_anything_is_made(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHASSIS_COUNT", "lots")
    assert cluster.main(["up"]) == 2
    assert "CHASSIS_COUNT" in capsys.readouterr().err
    assert not (run_dir / "run").exists()


def test_every_node_has_the_daemons_of_its_role() -> None:
    assert list(pid_files(PLAN.central)) == ["ovnnb_db", "ovnsb_db", "ovn-northd"]
    for node in PLAN.chassis:
        assert list(pid_files(node)) == ["ovsdb-server", "ovs-vswitchd", "ovn-controller"]


def test_a_pid_file_counts_only_while_its_process_runs(run_dir: Path) -> None:
    file = run_dir / "x.pid"
    assert running_pid(file) is None
    file.write_text(f"{os.getpid()}\n", encoding="ascii")
    assert running_pid(file) == os.getpid()
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    file.write_text(f"{ended.pid}\n", encoding="ascii")
    assert running_pid(file) is None


def test_a_killed_process_is_gone_when_kill_returns() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        links.kill(process.pid)
        assert not links.is_alive(process.pid)


def test_gateways_say_that_they_may_be_one_and_others_do_not() -> None:
    ids = {node.name: daemons.external_ids(PLAN, node) for node in PLAN.chassis}
    assert ids["ovn-gw-1"]["ovn-cms-options"] == "enable-chassis-as-gw"
    assert "ovn-cms-options" not in ids["ovn-chassis-1"]
    assert ids["ovn-chassis-1"]["system-id"] == ids["ovn-chassis-1"]["hostname"] == "ovn-chassis-1"
    assert ids["ovn-chassis-1"]["ovn-bridge-mappings"] == "public:br-ex"
    assert ids["ovn-chassis-1"]["ovn-encap-ip"] == "170.168.0.4"


def test_the_outside_server_has_both_families_and_the_gateways_addresses() -> None:
    lines = "\n".join(outside.address_lines("eth0"))
    for address in ("172.16.1.50/24", "172.16.1.1/24", "fd00:172:16:1::50/64", "fd00:172:16:1::1/64"):
        assert address in lines


def test_an_agents_settings_lead_to_its_own_node() -> None:
    settings = services.agent_environment(PLAN.node("ovn-gw-1"))
    assert settings["OVNMIG_AGENT_OVS_RUNDIR"].endswith("/ovn-gw-1/ovs")


def test_a_failing_program_is_told_with_what_it_said() -> None:
    with pytest.raises(shell.CommandError, match="exit code 3: alas"):
        shell.run(["sh", "-c", "echo alas >&2; exit 3"])
    with pytest.raises(shell.CommandError, match="no such program"):
        shell.run(["no-such-program-here"])


def test_waiting_for_what_never_comes_names_it() -> None:
    with pytest.raises(shell.ClusterError, match="the moon"):
        shell.wait_until("the moon", lambda: False, timeout_s=0.01, interval_s=0.001)


def test_work_in_parallel_reports_a_failure_after_all_have_ended() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 1:
            raise shell.ClusterError("one failed")
        done.append(number)

    with pytest.raises(shell.ClusterError, match="one failed"):
        shell.in_parallel(work, [1, 2, 3])
    assert sorted(done) == [2, 3]
