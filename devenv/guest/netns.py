"""Sockets inside a network namespace, without a process: a switch-over in microseconds instead of a fork.

A socket belongs to the namespace it was opened in, whatever its thread does later.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterator

from devenv.guest.shell import NETNS_DIR

CLONE_NEWNET = 0x40000000
ETH_P_RARP = 0x8035

# Bridge port states (linux/if_bridge.h).
DISABLED = 0
FORWARDING = 3

_RTM_SETLINK = 19
_NLM_F_REQUEST_ACK = 0x5
_NLMSG_ERROR = 2
_AF_BRIDGE = 7
_IFLA_PROTINFO_NESTED = 12 | 0x8000
_IFLA_BRPORT_STATE = 1
_IFLA_BRPORT_FLUSH = 24

_libc = ctypes.CDLL(None, use_errno=True)


def _setns(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextlib.contextmanager
def entered(namespace: str) -> Iterator[None]:
    """The calling thread is in the namespace inside the block. Raises FileNotFoundError, PermissionError."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        other = os.open(NETNS_DIR / namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(other)
        finally:
            os.close(other)
        try:
            yield
        finally:
            _setns(own)
    finally:
        os.close(own)


def rarp_frame(mac: str) -> bytes:
    """What a hypervisor sends for a VM that begins to run here: a broadcast RARP request from the VM's MAC.

    Padded to the 60 bytes that an Ethernet frame has at least.
    """
    address = bytes.fromhex(mac.replace(":", ""))
    header = b"\xff" * 6 + address + struct.pack("!H", ETH_P_RARP)
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 3) + address + bytes(4) + address + bytes(4)
    return (header + body).ljust(60, b"\0")


def port_state_message(if_index: int, state: int, *, flush: bool) -> bytes:
    """The netlink request for a bridge port's state; `flush` also forgets what was learned there."""
    attributes = struct.pack("=HHB3x", 5, _IFLA_BRPORT_STATE, state)
    if flush:
        attributes += struct.pack("=HH", 4, _IFLA_BRPORT_FLUSH)
    nested = struct.pack("=HH", 4 + len(attributes), _IFLA_PROTINFO_NESTED) + attributes
    link = struct.pack("=BxHiII", _AF_BRIDGE, 0, if_index, 0, 0)
    return (
        struct.pack("=IHHII", 16 + len(link) + len(nested), _RTM_SETLINK, _NLM_F_REQUEST_ACK, 1, 0)
        + link
        + nested
    )


class BridgeControl:
    """Port states of the bridges in one namespace, over one open netlink socket."""

    def __init__(self, namespace: str) -> None:
        with entered(namespace):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)

    def close(self) -> None:
        self._socket.close()

    def set_state(self, if_index: int, state: int, *, flush: bool = False) -> None:
        """Raises OSError with the kernel's error, ENETDOWN for a port that is down."""
        self._socket.send(port_state_message(if_index, state, flush=flush))
        answer = self._socket.recv(4096)
        kind, error = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
        if kind != _NLMSG_ERROR or error != 0:
            raise OSError(-error, os.strerror(-error))


def port_socket(namespace: str, device: str) -> tuple[socket.socket, int]:
    """A raw socket that sends out of that very device, past the bridge, and the device's index."""
    with entered(namespace):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        index = socket.if_nametoindex(device)
    opened.bind((device, 0))
    return opened, index
