"""What the agent needs to be told; everything else it reads from the node's own Open vSwitch database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CONTROL_PORT = 8788
STREAM_PORT = 8789


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings of ``ovnmig agent``. An empty text means: find out from the local database.

    ``ovs_rundir`` holds ``db.sock`` and the bridges' management sockets. ``chassis`` defaults to
    ``external_ids:system-id``, ``listen`` to the chassis' first encap address. ``pki_dir`` holds ``ca.crt``
    and ``<chassis>.crt`` and ``.key``, unless ``certificate`` and ``key`` name other files.
    """

    ovs_rundir: Path = Path("/run/openvswitch")
    database: str = ""
    """Default ``unix:<ovs_rundir>/db.sock``."""
    chassis: str = ""
    listen: str = ""
    control_port: int = CONTROL_PORT
    stream_port: int = STREAM_PORT
    pki_dir: Path = Path("/etc/ovnmig/pki")
    certificate: Path | None = None
    key: Path | None = None
