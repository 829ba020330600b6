"""The probe of a gap, one end of it: numbered datagrams on many sessions, both ways, with every time noted.

Arguments: `server` or `client`, the server's address, the sessions probed closely, all sessions, the result
file. The server speaks to a session once it has heard it, at the session's own pace. Prints `ready` (the
client after a second, when its sessions are open); `quit` on standard input writes the result.
"""

from __future__ import annotations

import heapq
import json
import selectors
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

PORT = 7010
CLOSE_EVERY_S = 0.005
WIDE_EVERY_S = 1.0
OPENING_S = 1.0
FORM = struct.Struct("!II")
"""Session and sequence number."""


class End:
    """One end. Times are Unix seconds of the guest's one clock; ``sent[n]`` is when number n left."""

    def __init__(self, close: int) -> None:
        self.close = close
        self.sent: dict[int, list[float]] = {}
        self.got: dict[int, list[tuple[int, float]]] = {}
        self.peers: dict[int, list[str]] = {}
        self.to: dict[int, tuple[socket.socket, Any]] = {}
        self.due: list[tuple[float, int]] = []
        self.refused = 0

    def add(self, number: int, sock: socket.socket, address: Any) -> None:
        """From now on session ``number`` is spoken to; ``address`` None: the socket is connected."""
        if number not in self.to:
            self.sent[number] = []
            heapq.heappush(self.due, (time.time(), number))
        self.to[number] = (sock, address)

    def hear(self, sock: socket.socket, *, answers: bool) -> None:
        """Take all that waits on ``sock``. An ICMP error is counted, and the session goes on."""
        while True:
            try:
                data, address = sock.recvfrom(64)
            except BlockingIOError:
                return
            except OSError:
                self.refused += 1
                continue
            if len(data) != FORM.size:
                continue
            number, sequence = FORM.unpack(data)
            self.got.setdefault(number, []).append((sequence, time.time()))
            if answers:
                peer = f"{address[0]} {address[1]}"
                if peer not in (known := self.peers.setdefault(number, [])):
                    known.append(peer)
                self.add(number, sock, address)

    def speak(self) -> float:
        """Send what is due; returns how long nothing will be (seconds)."""
        while self.due and self.due[0][0] <= (now := time.time()):
            due, number = heapq.heappop(self.due)
            sock, address = self.to[number]
            data = FORM.pack(number, len(self.sent[number]))
            self.sent[number].append(now)
            try:
                sock.send(data) if address is None else sock.sendto(data, address)
            except OSError:
                self.refused += 1
            every_s = CLOSE_EVERY_S if number < self.close else WIDE_EVERY_S
            heapq.heappush(self.due, (max(due + every_s, now - every_s), number))
        return max(0.0, self.due[0][0] - time.time()) if self.due else 1.0

    def result(self) -> dict[str, Any]:
        """What was noted."""
        return {"sent": self.sent, "got": self.got, "peers": self.peers, "refused": self.refused}


def main() -> int:
    """Probes until `quit`."""
    role, host, close, count, target = sys.argv[1:]
    end = End(int(close))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    chosen = selectors.DefaultSelector()
    for number in range(1 if role == "server" else int(count)):
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        chosen.register(sock, selectors.EVENT_READ)
        if role == "server":
            sock.bind((host, PORT))
        else:
            sock.connect((host, PORT))
            end.add(number, sock, None)
    chosen.register(sys.stdin, selectors.EVENT_READ)
    ready = time.time() + (OPENING_S if role == "client" else 0)
    while True:
        if ready and time.time() >= ready:
            print("ready", flush=True)
            ready = 0
        for key, _ in chosen.select(min(end.speak(), 0.1)):
            if key.fileobj is sys.stdin:
                Path(target).write_text(json.dumps(end.result()))
                return 0
            assert isinstance(key.fileobj, socket.socket)
            end.hear(key.fileobj, answers=role == "server")


if __name__ == "__main__":
    sys.exit(main())
