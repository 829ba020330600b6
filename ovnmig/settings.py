"""Settings from the environment: ``OVNMIG_*`` for the service, ``OVNMIG_AGENT_*`` for the node helper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ovnmig.logs import LogFormat, LogLevel

PKI_DIR = Path("/etc/ovnmig/pki")
CONTROL_PORT = 8788
STREAM_PORT = 8789
# ovn-controller gives zones to everything else from 1 upward, and 64000 to 64004 have other users.
FIRST_ZONE, LAST_ZONE = 32768, 63999

PortNumber = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class SettingsError(Exception):
    """Settings that cannot work; ``problems`` say which variable and what to write."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Settings(BaseSettings):
    """``ovnmig serve``."""

    model_config = SettingsConfigDict(env_prefix="OVNMIG_", frozen=True, extra="ignore")

    nb: str = Field(
        default="unix:/var/run/ovn/ovnnb_db.sock",
        description="Northbound database: unix:PATH, tcp:IP:PORT or ssl:IP:PORT, comma-separated",
    )
    sb: str = Field(default="unix:/var/run/ovn/ovnsb_db.sock", description="Southbound database, likewise")
    ovsdb_key: Path | None = Field(default=None, description="private key for ssl: remotes")
    ovsdb_cert: Path | None = Field(default=None, description="certificate for ssl: remotes")
    ovsdb_ca: Path | None = Field(default=None, description="CA certificate for ssl: remotes")
    ovsdb_timeout_s: Seconds = Field(default=10.0, description="a database that takes longer is unavailable")
    owner: str = Field(
        default="ovnmig",
        min_length=1,
        max_length=64,
        description="deployment id that marks our rows; two deployments never see each other's",
    )
    listen_address: str = Field(default="127.0.0.1", description="REST; only loopback is accepted")
    listen_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8787, description="REST; 0: any free port"
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="names besides localhost and loopback addresses that REST answers for, as a JSON list",
    )
    pki_dir: Path = Field(default=PKI_DIR, description="where ca.crt and the controller's certificate are")
    certificate: str = Field(
        default="controller",
        description="file name, without .crt and .key, of the controller's certificate there",
    )
    agent_control_port: PortNumber = Field(default=CONTROL_PORT, description="where agents take orders")
    history_file: Path = Field(
        default=Path("/var/lib/ovnmig/history.sqlite"), description="SQLite; may be lost"
    )
    snat_zone_first: Annotated[int, Field(ge=1, le=63999)] = Field(
        default=FIRST_ZONE, description="lowest zone given to a UDN's router"
    )
    snat_zone_last: Annotated[int, Field(ge=1, le=63999)] = Field(
        default=LAST_ZONE, description="highest zone given to a UDN's router"
    )
    preparing_s: Seconds = Field(default=60.0, description="deadline: the target must be ready to import")
    copying_s: Seconds = Field(default=120.0, description="deadline: both sides must be in step")
    ready_s: Seconds = Field(
        default=600.0, description="deadline: the VM must arrive (not with a manual trigger)"
    )
    switching_s: Seconds = Field(default=10.0, description="deadline: the target must own the gateway")
    sweep_s: Seconds = Field(
        default=15.0, description="how often agents are asked for orders that nobody wants any more"
    )
    log_format: LogFormat = Field(default=LogFormat.AUTO, description="auto: text on a terminal, else JSON")
    log_level: LogLevel = Field(default=LogLevel.INFO, description="least level that is logged")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.snat_zone_first > self.snat_zone_last:
            raise ValueError("OVNMIG_SNAT_ZONE_FIRST is above OVNMIG_SNAT_ZONE_LAST")
        given = [self.ovsdb_key, self.ovsdb_cert, self.ovsdb_ca]
        if any(given) and not all(given):
            raise ValueError(
                "OVNMIG_OVSDB_KEY, OVNMIG_OVSDB_CERT and OVNMIG_OVSDB_CA belong together: set all three"
            )
        if not all(given) and ("ssl:" in self.nb or "ssl:" in self.sb):
            raise ValueError("an ssl: remote needs OVNMIG_OVSDB_KEY, OVNMIG_OVSDB_CERT and OVNMIG_OVSDB_CA")
        return self


class AgentSettings(BaseSettings):
    """``ovnmig agent``. What is left out is read from the node's own Open vSwitch database."""

    model_config = SettingsConfigDict(env_prefix="OVNMIG_AGENT_", frozen=True, extra="ignore")

    ovs_rundir: Path = Field(
        default=Path("/run/openvswitch"), description="holds db.sock and the bridges' management sockets"
    )
    database: str = Field(default="", description="local database; empty: unix:<ovs_rundir>/db.sock")
    chassis: str = Field(default="", description="name of the chassis; empty: external_ids:system-id")
    listen: str = Field(default="", description="address to listen on; empty: the first ovn-encap-ip")
    control_port: PortNumber = Field(
        default=CONTROL_PORT, description="where orders of controllers are taken"
    )
    stream_port: PortNumber = Field(
        default=STREAM_PORT, description="where streams of other agents are taken"
    )
    pki_dir: Path = Field(default=PKI_DIR, description="holds ca.crt, <chassis>.crt and <chassis>.key")
    certificate: Path | None = Field(default=None, description="certificate file, if not in pki_dir")
    key: Path | None = Field(default=None, description="private key file, if not in pki_dir")
    log_format: LogFormat = Field(default=LogFormat.AUTO, description="auto: text on a terminal, else JSON")
    log_level: LogLevel = Field(default=LogLevel.INFO, description="least level that is logged")


def problems_of(error: ValidationError, prefix: str) -> list[str]:
    """A pydantic error in words that name the environment variable."""
    found = []
    for item in error.errors():
        words = str(item["msg"]).removeprefix("Value error, ")
        variable = prefix + "_".join(str(part) for part in item["loc"]).upper()
        found.append(f"{variable}: {words} (it is {item['input']!r})" if item["loc"] else words)
    return found


def load_agent_settings() -> AgentSettings:
    """The agent's settings. Raises SettingsError."""
    try:
        return AgentSettings()
    except ValidationError as error:
        raise SettingsError(problems_of(error, "OVNMIG_AGENT_")) from None


def load_settings() -> Settings:
    """The service's settings. Raises SettingsError."""
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError(problems_of(error, "OVNMIG_")) from None
