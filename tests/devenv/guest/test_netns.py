"""The frames and messages a move sends, and a real bridge that obeys them."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator

import pytest

from devenv.guest import netns
from devenv.guest.netns import BridgeControl, entered, port_socket, port_state_message, rarp_frame

NAMESPACE = f"ovnmig-t-{os.getpid()}"


def test_the_rarp_frame_is_a_broadcast_from_the_vms_mac() -> None:
    frame = rarp_frame("02:00:00:00:00:0A")
    assert frame[:6] == b"\xff" * 6
    assert frame[6:12] == bytes.fromhex("02000000000a")
    assert frame[12:14] == bytes.fromhex("8035")
    assert frame[14:22] == bytes.fromhex("0001080006040003")
    assert len(frame) == 60


def test_a_port_state_message_says_its_own_length() -> None:
    for flush in (False, True):
        message = port_state_message(7, netns.DISABLED, flush=flush)
        assert int.from_bytes(message[:4], "little") == len(message)


@pytest.fixture
def bridge() -> Iterator[str]:
    """A namespace with a bridge and two connected ports, `p0` and `p1`."""
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    lines = ["link add br0 up type bridge"]
    for port in ("p0", "p1"):
        lines += [f"link add {port} type veth peer name far-{port}", f"link set far-{port} up"]
        lines += [f"link set {port} master br0 up"]
    text = "\n".join(lines)
    subprocess.run(["ip", "-netns", NAMESPACE, "-batch", "-"], input=text, text=True, check=True)
    yield NAMESPACE
    subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def states() -> dict[str, str]:
    argv = ["bridge", "-netns", NAMESPACE, "link"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[1].split("@")[0]: line.split("state ")[1].split()[0] for line in lines}


def test_a_port_of_a_real_bridge_is_disabled_and_enabled_again(bridge: str) -> None:
    opened, index = port_socket(bridge, "p0")
    opened.close()
    control = BridgeControl(bridge)
    try:
        control.set_state(index, netns.DISABLED, flush=True)
        assert states() == {"p0": "disabled", "p1": "forwarding"}
        control.set_state(index, netns.FORWARDING)
        assert states() == {"p0": "forwarding", "p1": "forwarding"}
    finally:
        control.close()


def test_the_kernels_refusal_becomes_an_error(bridge: str) -> None:
    control = BridgeControl(bridge)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENODEV)):
            control.set_state(9999, netns.FORWARDING)
    finally:
        control.close()


def test_the_thread_comes_back_from_a_namespace_even_after_an_error(bridge: str) -> None:
    before = os.readlink("/proc/thread-self/ns/net")
    inside: list[str] = []

    def fail_inside() -> None:
        with entered(bridge):
            inside.append(os.readlink("/proc/thread-self/ns/net"))
            raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        fail_inside()
    assert inside != [before]
    assert os.readlink("/proc/thread-self/ns/net") == before
