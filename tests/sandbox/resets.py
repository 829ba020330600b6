"""Runs in the guest: connections with chosen sequence numbers, aborted by one end when told.

Arguments: namespace of the client, JSON of the servers by family, result file. Both ends live in this
process, so it knows what each of them saw. Prints `ready` once the connections are open; `go` on standard
input aborts them, `quit` ends it; the result says for each whether the other end saw the reset.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devenv.guest.netns import entered

TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21
REPAIR_ON, REPAIR_OFF_QUIETLY = 1, -1
RECEIVE, SEND = 1, 2
PORT = 7100
HALF = 1 << 31
SEEN_WITHIN_S = 5.0
TRIES = 40


def sequence(sock: socket.socket, queue: int) -> int:
    """The next sequence number of a direction of an open connection."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_ON)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
    raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, 4)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF_QUIETLY)
    return int(struct.unpack("=I", raw)[0])


def begin_at(sock: socket.socket, number: int) -> None:
    """A socket not connected yet begins its sequence there instead of at a random number."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_ON)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, SEND)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, struct.pack("=I", number))
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF_QUIETLY)


@dataclass
class Pair:
    """One connection with both its ends."""

    family: int
    client: socket.socket
    server: socket.socket
    aborted_by: str = ""
    number: int = 0

    def ends(self) -> tuple[socket.socket, socket.socket]:
        """The end that aborts, and the one that must see it."""
        return (self.client, self.server) if self.aborted_by == "client" else (self.server, self.client)


class Opener:
    """Opens connections from the client's namespace to a listener in `outside`."""

    def __init__(self, namespace: str, servers: dict[str, str]) -> None:
        self.namespace = namespace
        self.servers = servers
        self.listeners: dict[int, socket.socket] = {}
        with entered("outside"):
            for family, address in servers.items():
                kind = socket.AF_INET if family == "4" else socket.AF_INET6
                listener = socket.socket(kind, socket.SOCK_STREAM)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, PORT))
                listener.listen(16)
                self.listeners[int(family)] = listener

    def open(self, family: int, number: int) -> Pair:
        """A connection whose client begins its sequence at ``number``."""
        with entered(self.namespace):
            client = socket.socket(self.listeners[family].family, socket.SOCK_STREAM)
        client.settimeout(10)
        begin_at(client, number)
        client.connect((self.servers[str(family)], PORT))
        server, _ = self.listeners[family].accept()
        server.settimeout(10)
        for a, b in ((client, server), (server, client)):
            a.sendall(b"hello")
            if b.recv(5) != b"hello":
                raise OSError("the connection does not carry data")
        return Pair(family, client, server)

    def wanted(self, family: int) -> Iterator[Pair]:
        """One connection per end and half of the sequence space; the server's number is met by repeating."""
        for high in (False, True):
            pair = self.open(family, HALF + 5000 if high else 5000)
            pair.aborted_by, pair.number = "client", sequence(pair.client, SEND)
            yield pair
        missing = {False, True}
        for _ in range(TRIES):
            pair = self.open(family, 77)
            pair.number = sequence(pair.server, SEND)
            if (pair.number >= HALF) in missing:
                missing.discard(pair.number >= HALF)
                pair.aborted_by = "server"
                yield pair
            else:
                pair.client.close()
                pair.server.close()
            if not missing:
                return
        raise OSError(f"no server sequence number in a half of the space in {TRIES} tries")


def abort(pair: Pair) -> None:
    """The chosen end sends a reset."""
    end, _ = pair.ends()
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def saw_reset(pair: Pair) -> str:
    """What the other end saw: `reset`, or something else in words."""
    _, other = pair.ends()
    other.settimeout(SEEN_WITHIN_S)
    try:
        data = other.recv(1)
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "nothing"
    return f"data {data!r}" if data else "an orderly end"


def main(namespace: str, servers: str, result: str) -> None:
    opener = Opener(namespace, json.loads(servers))
    pairs = [pair for family in opener.listeners for pair in opener.wanted(family)]
    print("ready", flush=True)
    while (word := sys.stdin.readline().strip()) not in ("quit", ""):
        if word == "go":
            for pair in pairs:
                abort(pair)
            time.sleep(0.1)
    told = [
        {"family": p.family, "by": p.aborted_by, "high": p.number >= HALF, "seen": saw_reset(p)}
        for p in pairs
    ]
    Path(result).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
