from __future__ import annotations

import json
import time
from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path

import pytest

from ovnmig.core.replication import CopyState, Standby
from ovnmig.core.udn import Policy, Replication
from tests.cli.conftest import Cli
from tests.service.fake import FakeController
from tests.service.lib import WEIRD_NAMES

CREATE = ("--subnet", "10.1.0.0/24", "--vip", "172.16.1.100/24", "--physical-network", "public")


@pytest.mark.parametrize("name", WEIRD_NAMES)
def test_any_name_is_created_shown_and_deleted(cli: Cli, url: str, name: str) -> None:
    assert cli("udn", "create", *CREATE, "--", name).code == 0
    assert json.loads(cli("udn", "show", "--json", "--", name).out)["name"] == name
    assert [u["name"] for u in json.loads(cli("udn", "list", "--json").out)["udns"]] == [name]
    assert cli("udn", "delete", "--", name).code == 0
    assert cli("udn", "show", "--", name).code == 3


def test_creating_twice_says_that_nothing_changed(cli: Cli, url: str) -> None:
    assert "created" in cli("udn", "create", "blue", *CREATE).err
    again = cli("udn", "create", "blue", *CREATE)
    assert again.code == 0
    assert "already" in again.err


def test_every_option_reaches_the_controller(cli: Cli, controller: FakeController, url: str) -> None:
    done = cli(
        "udn", "create", "blue", *CREATE, "--nexthop", "172.16.1.1", "--switch", "ls", "--gateway-address",
        "10.1.0.9/24", "--vlan", "7", "--port-range", "20000-30000", "--snat-zone", "off",
        "--policy", "pinned", "--anchor", "vm1", "--standby-count", "0",
        "--chassis", "gw-2", "--chassis", "gw-1",
    )  # fmt: skip
    assert done.code == 0, done.err
    spec = controller.states["blue"].spec
    assert (spec.switch, spec.vlan, spec.port_range, spec.snat_zone) == ("ls", 7, (20000, 30000), None)
    assert (spec.policy, spec.anchor, spec.standby_count) == (Policy.PINNED, "vm1", 0)
    assert spec.gateway_addresses == (ip_interface("10.1.0.9/24"),)
    assert spec.chassis == ("gw-2", "gw-1")


def test_fields_can_come_from_a_file_and_options_win(
    cli: Cli, controller: FakeController, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "udn.json"
    fields = {"subnets": ["10.1.0.0/24"], "vips": ["172.16.1.9/24"], "physical_network": "public", "vlan": 5}
    file.write_text(json.dumps(fields), encoding="utf-8")
    assert cli("udn", "create", "blue", "-f", str(file), "--vlan", "6").code == 0
    assert controller.states["blue"].spec.vlan == 6


@pytest.mark.parametrize("content", ["{", "[]", "\xff", "[" * 200_000, '{"vlan": NaN}'])
def test_a_file_that_is_no_json_object_is_wrong_usage(
    cli: Cli, url: str, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "udn.json"
    file.write_text(content, encoding="utf-8")
    assert cli("udn", "create", "blue", "-f", str(file)).code == 2
    assert cli("udn", "create", "blue", "-f", str(tmp_path / "none")).code == 2


def test_set_changes_what_is_named_and_keeps_the_rest(
    cli: Cli, controller: FakeController, blue: str
) -> None:
    before = controller.states[blue].spec
    assert cli("udn", "set", blue, "--vlan", "9", "--policy", "pinned").code == 0
    after = controller.states[blue].spec
    assert (after.vlan, after.policy) == (9, Policy.PINNED)
    assert (after.subnets, after.vips, after.switch, after.switch_uuid) == (
        before.subnets, before.vips, before.switch, before.switch_uuid,
    )  # fmt: skip
    assert cli("udn", "set", blue, "--clear", "vlan", "--snat-zone", "off").code == 0
    assert (controller.states[blue].spec.vlan, controller.states[blue].spec.snat_zone) == (None, None)


def test_set_of_nothing_and_clearing_what_cannot_be_cleared_are_wrong_usage(cli: Cli, blue: str) -> None:
    assert cli("udn", "set", blue).code == 2
    assert "vips" in cli("udn", "set", blue, "--clear", "vips").err
    assert cli("udn", "set", blue, "--snat-zone", "many").code == 2


def test_refused_fields_are_listed_with_what_to_write(cli: Cli, url: str) -> None:
    done = cli(
        "udn", "create", "blue", "--subnet", "10.1.0.5/24", "--vip", "172.16.1.100", "--physical-network", "p"
    )
    assert done.code == 1
    assert "write '10.1.0.0/24'" in done.err
    assert "vips[0]" in done.err


def test_a_name_with_a_slash_is_wrong_usage_before_anything_is_asked(cli: Cli) -> None:
    assert cli("udn", "show", "a/b").code == 2


def test_deleting_what_is_not_there_is_not_found_unless_that_is_fine(cli: Cli, url: str) -> None:
    assert cli("udn", "delete", "none").code == 3
    assert cli("udn", "delete", "none", "--if-exists").code == 0


def test_the_table_shows_a_udn_on_one_line(cli: Cli, blue: str) -> None:
    lines = cli("udn", "list").out.splitlines()
    assert len(lines) == 2
    assert blue in lines[1]
    assert "fd00:1::/64" in lines[1]


def test_replication_is_asked_for_kept_and_shown_with_each_copy(
    cli: Cli, controller: FakeController, blue: str
) -> None:
    assert cli("udn", "set", blue, "--replication", "continuous").code == 0
    assert cli("udn", "set", blue, "--vlan", "9").code == 0
    assert controller.states[blue].spec.replication is Replication.CONTINUOUS
    assert cli("udn", "set", blue, "--replication", "sometimes").code in (1, 2)
    copies = (
        Standby("gw-2", CopyState.IN_STEP, 3, time.time() - 0.5, refused=2),
        Standby("gw-3", CopyState.CONNECTING, reason="no route"),
    )
    controller.states[blue] = replace(controller.states[blue], replication=copies)
    shown = cli("udn", "show", blue).out
    assert "continuous" in shown
    assert "gw-2: in-step, 3 pending, confirmed 0." in shown
    assert ", 2 refused" in shown
    assert "gw-3: connecting, 0 pending (no route)" in shown


@pytest.mark.parametrize("vlan", ["0", "4095", "-1", "9" * 30])
def test_a_vlan_out_of_range_is_refused_and_never_left_out(
    cli: Cli, controller: FakeController, url: str, vlan: str
) -> None:
    refused = cli("udn", "create", "blue", *CREATE, "--vlan", vlan)
    assert (refused.code, controller.states) == (1, {})
    assert "vlan: write " in refused.err
    assert cli("udn", "create", "blue", *CREATE).code == 0
    assert cli("udn", "set", "blue", "--vlan", vlan).code == 1


@pytest.mark.parametrize("zone", ["-1", "٣", "²", "9" * 5000, "1.5", ""])
def test_a_zone_that_is_no_number_is_wrong_usage(
    cli: Cli, controller: FakeController, url: str, zone: str
) -> None:
    assert cli("udn", "create", "blue", *CREATE, "--snat-zone", zone).code == 2
    assert controller.states == {}
