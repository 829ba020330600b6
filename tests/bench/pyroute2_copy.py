"""The same copy with pyroute2, run by a Python that has it: namespaces and zones on the command line."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import socket
import sys
import time
from typing import Any

_CLONE_NEWNET = 0x40000000
_SRC_NAT = 0x10
_CARRIED = 0x0406
"""SEEN_REPLY, ASSURED, FIXED_TIMEOUT."""
_CONFIRMED_AND_NAT = 0x198


def open_in(library: Any, name: str) -> Any:
    """pyroute2's conntrack socket in a namespace; asked once at once, for it opens when it is first used."""
    handle = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter {name}")
    os.close(handle)
    made = library.NFCTSocket()
    made.count()
    return made


def tuple_of(library: Any, entry: Any, name: str) -> Any:
    """One direction of a dumped entry."""
    whole = entry.get_attr(name)
    ip, proto = whole.get_attr("CTA_TUPLE_IP"), whole.get_attr("CTA_TUPLE_PROTO")
    return library.NFCTAttrTuple(
        socket.AF_INET,
        ip.get_attr("CTA_IP_V4_SRC"),
        ip.get_attr("CTA_IP_V4_DST"),
        proto.get_attr("CTA_PROTO_NUM"),
        proto.get_attr("CTA_PROTO_SRC_PORT"),
        proto.get_attr("CTA_PROTO_DST_PORT"),
    )


def create(library: Any, out: Any, entry: Any, zone: int) -> None:
    """Makes the entry in another zone."""
    there, back = (tuple_of(library, entry, f"CTA_TUPLE_{side}") for side in ("ORIG", "REPLY"))
    status = entry.get_attr("CTA_STATUS")
    ports = {"attrs": [["CTA_PROTONAT_PORT_MIN", back.dport], ["CTA_PROTONAT_PORT_MAX", back.dport]]}
    nat = {
        "attrs": [
            ["CTA_NAT_V4_MINIP", back.daddr],
            ["CTA_NAT_V4_MAXIP", back.daddr],
            ["CTA_NAT_PROTO", ports],
        ]
    }
    out.entry(
        "add",
        tuple_orig=there,
        tuple_reply=there.reverse(),
        zone=zone,
        timeout=entry.get_attr("CTA_TIMEOUT"),
        status=status & _CARRIED | _CONFIRMED_AND_NAT,
        mark=entry.get_attr("CTA_MARK"),
        protoinfo=entry.get_attr("CTA_PROTOINFO"),
        **({"nat_src": nat} if status & _SRC_NAT else {}),
    )


def main() -> None:
    """Prints one JSON object, as the C program does."""
    library = importlib.import_module("pyroute2.netlink.nfnetlink.nfctsocket")
    source, from_zone, target, to_zone = sys.argv[1:]
    read, write = open_in(library, source), open_in(library, target)
    cpu, start, entries = time.process_time(), time.perf_counter(), 0
    for entry in read.dump(zone=int(from_zone)):
        create(library, write, entry, int(to_zone))
        entries += 1
    wall, spent = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"entries": entries, "wall_s": wall, "cpu_s": spent, "peak_mib": None}))


if __name__ == "__main__":
    main()
