"""The command line: verbs, options, the variables that stand in for them, and refusals."""

from __future__ import annotations

import pytest

from devenv.host.errors import EXIT_USAGE, SandboxError
from devenv.host.options import build_parser, parse
from devenv.host.paths import run_dir


def test_the_defaults_are_trixie_three_chassis_and_port_8787() -> None:
    options = parse(["up"], {})
    assert (options.suite, options.chassis, options.gateways) == ("trixie", 3, 0)
    assert (options.port, options.name, options.backend) == (8787, "sandbox", "auto")


def test_variables_stand_in_for_options_and_options_win() -> None:
    environ = {"SUITE": "bookworm", "CHASSIS_COUNT": "5", "GW_COUNT": "2"}
    options = parse(["up"], environ)
    assert (options.suite, options.chassis, options.gateways) == ("bookworm", 5, 2)
    options = parse(["up", "--suite", "trixie", "--chassis", "4", "--gateways", "0"], environ)
    assert (options.suite, options.chassis, options.gateways) == ("trixie", 4, 0)


def test_build_takes_a_suite_and_nothing_to_boot_with() -> None:
    options = parse(["build", "--suite", "bookworm"], {})
    assert (options.verb, options.suite, options.backend) == ("build", "bookworm", "auto")
    with pytest.raises(SystemExit):
        parse(["build", "--port", "8788"], {})


def test_an_empty_variable_is_none() -> None:
    assert parse(["up"], {"SUITE": "", "CHASSIS_COUNT": ""}).suite == "trixie"


def test_the_variables_of_the_cluster_are_handed_on_and_no_others() -> None:
    environ = {"ENABLE_SSL": "no", "OVN_DP_TYPE": "netdev", "HOME": "/root", "IP_HOST": ""}
    handed = parse(["up", "--suite", "bookworm"], environ).cluster_environment()
    assert handed == {
        "ENABLE_SSL": "no",
        "OVN_DP_TYPE": "netdev",
        "CHASSIS_COUNT": "3",
        "GW_COUNT": "0",
        "SUITE": "bookworm",
    }


def test_what_follows_the_dashes_is_the_program_with_its_own_options() -> None:
    options = parse(
        ["exec", "--name", "other", "ovn-chassis-1", "--", "ovs-vsctl", "--timeout=5", "show"], {}
    )
    assert (options.name, options.node) == ("other", "ovn-chassis-1")
    assert options.words == ("ovs-vsctl", "--timeout=5", "show")


def test_a_second_pair_of_dashes_belongs_to_the_program() -> None:
    assert parse(["exec", "guest", "--", "env", "--", "true"], {}).words == ("env", "--", "true")


def test_the_scene_of_the_demo_is_handed_on_before_what_follows_the_dashes() -> None:
    words = ("--scene", "crash", "--runs", "replication")
    assert parse(["demo", "--scene", "crash", "--", *words[2:]], {}).words == words


def test_the_kind_of_vm_is_an_option_or_a_variable_and_the_demo_is_told_a_real_one() -> None:
    assert parse(["up"], {}).vm == "namespace"
    assert parse(["up"], {"VM": "qemu"}).vm == "qemu"
    assert parse(["demo", "--vm", "qemu", "--", "--runs", "transfer"], {}).words == (
        "--vm",
        "qemu",
        "--runs",
        "transfer",
    )
    assert parse(["demo", "--vm", "namespace"], {"VM": "qemu"}).words == ()
    with pytest.raises(SandboxError, match="no VM of kind 'metal'"):
        parse(["up"], {"VM": "metal"})


def test_the_demo_hands_on_what_follows_the_dashes() -> None:
    assert parse(["demo", "--suite", "bookworm", "--", "--runs", "transfer"], {}).words == (
        "--runs",
        "transfer",
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["exec", "guest"],
        ["exec", "guest", "--"],
        ["up", "--suite", "buster"],
        ["up", "--chassis", "many"],
        ["up", "--gateways", "-1"],
        ["up", "--port", "0"],
        ["up", "--port", "65536"],
        ["up", "--memory", "64"],
        ["logs", "--lines", "0"],
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_to_give_instead(argv: list[str]) -> None:
    with pytest.raises(SandboxError) as caught:
        parse(argv, {})
    assert caught.value.code == EXIT_USAGE
    assert caught.value.hint


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "a b", "x" * 60])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(SandboxError):
        run_dir(name)


def test_the_help_names_every_verb_and_exit_code() -> None:
    text = build_parser().format_help()
    for verb in ("up", "down", "status", "exec", "run", "logs", "demo", "clean"):
        assert f"\n    {verb} " in text
    assert "3 the sandbox does not run" in text
