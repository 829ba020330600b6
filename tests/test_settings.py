from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from ovnmig.agent import settings as agent
from ovnmig.logs import LogFormat
from ovnmig.settings import AgentSettings, Settings, SettingsError, load_agent_settings, load_settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OVNMIG_"):
            monkeypatch.delenv(name)


def test_the_defaults_work_and_listen_on_loopback() -> None:
    settings = load_settings()
    assert (settings.listen_address, settings.listen_port, settings.owner) == ("127.0.0.1", 8787, "ovnmig")
    assert (settings.snat_zone_first, settings.snat_zone_last) == (32768, 63999)
    assert settings.pki_dir == Path("/etc/ovnmig/pki")


def test_variables_set_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVNMIG_NB", "tcp:192.0.2.1:6641,tcp:192.0.2.2:6641")
    monkeypatch.setenv("OVNMIG_COPYING_S", "7.5")
    monkeypatch.setenv("OVNMIG_LOG_FORMAT", "json")
    monkeypatch.setenv("OVNMIG_ALLOWED_HOSTS", '["ovnmig.example"]')
    settings = load_settings()
    assert settings.allowed_hosts == ("ovnmig.example",)
    assert settings.nb.endswith("192.0.2.2:6641")
    assert settings.copying_s == 7.5
    assert settings.log_format is LogFormat.JSON


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OVNMIG_LISTEN_PORT", "65536"),
        ("OVNMIG_COPYING_S", "0"),
        ("OVNMIG_OWNER", ""),
        ("OVNMIG_SNAT_ZONE_LAST", "64000"),
        ("OVNMIG_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=variable) as raised:
        load_settings()
    assert repr(value) in raised.value.problems[0]


def test_settings_that_contradict_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVNMIG_SNAT_ZONE_FIRST", "50000")
    monkeypatch.setenv("OVNMIG_SNAT_ZONE_LAST", "40000")
    with pytest.raises(SettingsError, match="above"):
        load_settings()
    monkeypatch.delenv("OVNMIG_SNAT_ZONE_FIRST")
    monkeypatch.setenv("OVNMIG_NB", "ssl:192.0.2.1:6641")
    with pytest.raises(SettingsError, match="OVNMIG_OVSDB_KEY"):
        load_settings()
    monkeypatch.setenv("OVNMIG_OVSDB_KEY", "/k")
    with pytest.raises(SettingsError, match="belong together"):
        load_settings()


def test_the_agents_settings_are_those_that_the_agent_takes() -> None:
    taken = {field.name: field.default for field in fields(agent.AgentSettings)}
    offered = load_agent_settings().model_dump(exclude={"log_format", "log_level"})
    assert offered == taken


def test_a_wrong_value_of_the_agent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVNMIG_AGENT_STREAM_PORT", "none")
    with pytest.raises(SettingsError, match="OVNMIG_AGENT_STREAM_PORT"):
        load_agent_settings()


def test_every_setting_says_what_it_means() -> None:
    for model in (Settings, AgentSettings):
        assert not [name for name, field in model.model_fields.items() if not field.description]
