"""Files of a running cluster and the environment of its nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devenv.guest.paths import node_environment, parse_env, read_node_env, render_env, vm_file
from devenv.guest.plan import plan_from

KEYS = st.from_regex(r"[A-Z_][A-Z0-9_]{0,10}", fullmatch=True)
VALUES = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs", "Zl", "Zp", "Cc"]))


@given(st.dictionaries(KEYS, VALUES))
def test_an_environment_file_gives_back_what_was_written(values: dict[str, str]) -> None:
    assert parse_env(render_env(values)) == values


def test_a_shell_reads_the_environment_file_as_we_do(tmp_path: Path) -> None:
    file = tmp_path / "x.env"
    file.write_text(render_env({"ODD": "a 'b' \"c\" $HOME `id` ;#"}), encoding="utf-8")
    said = subprocess.run(
        ["sh", "-c", f'. {file}; printf %s "$ODD"'], capture_output=True, text=True, check=True
    )
    assert said.stdout == "a 'b' \"c\" $HOME `id` ;#"


def test_a_value_with_a_line_break_is_refused() -> None:
    with pytest.raises(ValueError, match="one line"):
        render_env({"A": "b\nc"})


def test_comments_are_skipped_and_other_lines_are_refused() -> None:
    assert parse_env("# a comment\n\nA=b\n") == {"A": "b"}
    with pytest.raises(ValueError, match="KEY=VALUE"):
        parse_env("nonsense\n")


def test_the_central_node_uses_sockets_and_a_chassis_the_underlay() -> None:
    plan = plan_from({})
    central = node_environment(plan, plan.central)
    chassis = node_environment(plan, plan.node("ovn-chassis-1"))
    assert central["OVN_NB_DB"] == "unix:/run/ovnmig/ovn-central-az1/ovn/ovnnb_db.sock"
    assert chassis["OVN_NB_DB"] == "tcp:170.168.0.2:6641"
    assert chassis["OVN_SB_DB"] == "tcp:170.168.0.2:6642"
    assert chassis["OVS_RUNDIR"] == "/run/ovnmig/ovn-chassis-1/ovs"


def test_with_ssl_the_tools_of_a_chassis_get_its_certificate() -> None:
    plan = plan_from({"ENABLE_SSL": "yes"})
    chassis = node_environment(plan, plan.node("ovn-chassis-1"))
    assert chassis["OVN_NB_DB"].startswith("ssl:")
    assert "/pki/ovn-chassis-1.key" in chassis["OVN_NBCTL_OPTIONS"]
    assert chassis["OVN_NBCTL_OPTIONS"] == chassis["OVN_SBCTL_OPTIONS"]
    assert "OVN_NBCTL_OPTIONS" not in node_environment(plan, plan.central)


def test_no_two_nodes_share_a_run_directory() -> None:
    plan = plan_from({"GW_COUNT": "1"})
    for key in ("OVS_RUNDIR", "OVN_RUNDIR", "OVS_DBDIR", "OVN_LOGDIR"):
        assert len({node_environment(plan, node)[key] for node in plan.nodes}) == len(plan.nodes)


def test_a_node_that_does_not_exist_has_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVNMIG_RUN", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        read_node_env("nobody")


def test_vm_names_of_any_kind_get_files_of_their_own() -> None:
    names = ["vm 1", "vm.1", "vm/1", "..", "w\u00e4chter", "a'b\""]
    files = {vm_file(name) for name in names}
    assert len(files) == len(names)
    assert {file.parent for file in files} == {vm_file("x").parent}
