"""Captures with tcpdump, read back as packets with just the fields the judge needs."""

from __future__ import annotations

import contextlib
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

PCAP_HEADER, RECORD_HEADER = 24, 16
SNAP_BYTES = 134
"""Ethernet, IPv6 and ICMPv6 headers plus the IPv6 and TCP headers an ICMPv6 error quotes."""
TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58
RST = 0x04


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet. Ports are 0 where there are none; ``quoted`` is the packet an ICMP error speaks of."""

    at: float
    source: str
    target: str
    protocol: int
    source_port: int = 0
    target_port: int = 0
    seq: int = 0
    ack: int = 0
    flags: int = 0
    icmp_type: int = -1
    quoted: Packet | None = None

    @property
    def is_unreachable(self) -> bool:
        """ICMP destination unreachable (type 3) or its ICMPv6 kin (type 1)."""
        return (self.protocol, self.icmp_type) in ((ICMP, 3), (ICMPV6, 1))


class Capture:
    """A tcpdump that runs until :meth:`stop`. ``namespace`` empty: the guest's root namespace."""

    def __init__(self, file: Path, interface: str, namespace: str, servers: tuple[str, ...]) -> None:
        not_server = " and ".join(f"not src host {a}" for a in servers)
        resets = "(tcp[13] & 4 != 0) or (ip6[6] = 6 and ip6[53] & 4 != 0)"
        what = f"(ip or ip6) and (({not_server}) or {resets} or icmp or icmp6)"
        enter = ["ip", "netns", "exec", namespace] if namespace else []
        self.file = file
        self._process = subprocess.Popen(
            [
                *enter,
                "tcpdump",
                "-i",
                interface,
                "-n",
                "-U",
                "-B",
                "8192",
                "-s",
                str(SNAP_BYTES),
                "-w",
                str(file),
                what,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + 10
        while not (file.exists() and file.stat().st_size >= PCAP_HEADER):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(
                    f"tcpdump did not start on {interface}: {self._process.communicate()[1]!r}"
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """End the capture with all packets written."""
        time.sleep(0.3)
        self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def read(file: Path) -> Iterator[Packet]:
    """All IP packets of a capture file in the form tcpdump writes here (microseconds, Ethernet)."""
    data = file.read_bytes()
    (magic,) = struct.unpack_from("<I", data)
    if magic != 0xA1B2C3D4:
        raise ValueError(f"{file} is not a capture file of the expected form (magic {magic:#x})")
    at = PCAP_HEADER
    while at + RECORD_HEADER <= len(data):
        seconds, micros, kept, _ = struct.unpack_from("<IIII", data, at)
        frame = data[at + RECORD_HEADER : at + RECORD_HEADER + kept]
        at += RECORD_HEADER + kept
        packet = parse_frame(seconds + micros / 1e6, frame)
        if packet is not None:
            yield packet


def parse_frame(at: float, frame: bytes) -> Packet | None:
    """The packet in an Ethernet frame (one VLAN tag allowed), ``None`` if it is not whole IP."""
    kind = frame[12:14]
    rest = frame[14:]
    if kind == b"\x81\x00":
        kind, rest = rest[2:4], rest[4:]
    if kind not in (b"\x08\x00", b"\x86\xdd"):
        return None
    return parse_ip(at, rest)


def parse_ip(at: float, data: bytes, *, quoted: bool = False) -> Packet | None:
    """The packet that ``data`` begins with; quoted packets may be cut after the ports."""
    if not data:
        return None
    if data[0] >> 4 == 4:
        if len(data) < 20:
            return None
        length, protocol = (data[0] & 15) * 4, data[9]
        source, target = data[12:16], data[16:20]
    else:
        if len(data) < 40:
            return None
        length, protocol = 40, data[6]
        source, target = data[8:24], data[24:40]
    body = data[length:]
    ends = (str(ip_address(source)), str(ip_address(target)))
    if protocol in (TCP, UDP) and len(body) >= 4:
        ports = struct.unpack_from(">HH", body)
        if protocol == TCP and len(body) >= 14:
            seq, ack = struct.unpack_from(">II", body, 4)
            return Packet(at, *ends, protocol, ports[0], ports[1], seq, ack, body[13])
        return Packet(at, *ends, protocol, ports[0], ports[1])
    if protocol in (ICMP, ICMPV6) and len(body) >= 8:
        inner = None if quoted else parse_ip(at, body[8:], quoted=True)
        return Packet(at, *ends, protocol, icmp_type=body[0], quoted=inner)
    return Packet(at, *ends, protocol)
