"""Chooses where the cluster's kernel datapath comes from: this machine's kernel, or a guest's."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess

GENL_FAMILY = "ovs_datapath"
NETLINK_GENERIC = 16
GENL_ID_CTRL = 16
CTRL_CMD_GETFAMILY = 3
CTRL_ATTR_FAMILY_NAME = 2
NLM_F_REQUEST = 1
NLMSG_ERROR = 2


def has_openvswitch() -> bool:
    """Tells whether the running kernel answers for the Open vSwitch datapath."""
    name = GENL_FAMILY.encode() + b"\0"
    padded = name.ljust((len(name) + 3) & ~3, b"\0")
    attribute = struct.pack("=HH", 4 + len(name), CTRL_ATTR_FAMILY_NAME)
    body = struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0) + attribute + padded
    message = struct.pack("=IHHII", 16 + len(body), GENL_ID_CTRL, NLM_F_REQUEST, 1, 0) + body
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as sock:
            sock.settimeout(2)
            sock.bind((0, 0))
            sock.send(message)
            answer = sock.recv(65536)
    except OSError:
        return False
    kind: int = struct.unpack_from("=IH", answer)[1]
    return kind != NLMSG_ERROR


def has_geneve() -> bool:
    """Tells whether the running kernel really makes a geneve device (in a namespace that vanishes again)."""
    script = "ip link add ovnmig-probe type geneve id 1 remote 192.0.2.1"
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, check=False)
    return done.returncode == 0


def choose(asked: str) -> str:
    """Returns `uml` or `host` for what was asked (`auto`: host where the kernel has what it takes)."""
    if asked != "auto":
        return asked
    if shutil.which("modprobe"):
        for module in ("openvswitch", "geneve"):
            subprocess.run(["modprobe", "-q", module], capture_output=True, check=False)
    return "host" if has_openvswitch() and has_geneve() else "uml"
