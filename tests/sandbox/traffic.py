"""Sessions through a cluster, played by the demo's own programs and judged by the demo's own judge."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from devenv.demo.judge import Move, Record, Wire, survived, wire_counts
from devenv.demo.plan import PUSH_PORT, TWIN_PORT, Session, to_json
from devenv.demo.traffic import record_of
from devenv.host.errors import ChannelError
from tests.sandbox.cluster import Cluster
from tests.sandbox.wire import Capture, captures
from tests.sandbox.world import SERVERS

PYTHON = ("/opt/ovnmig/bin/python", "-m")
AFTER_S = 2.5
"""Long enough for two messages of a server that pushes one a second."""
END_S = 1.5
_runs = itertools.count(1)


def pair_sessions(*vms: str, families: Sequence[int] = (4, 6)) -> list[Session]:
    """VMs at the same source ports to the same server ports: all but the first one's are port-translated."""
    found: list[Session] = []
    for vm in vms:
        for family in families:
            found.append(Session(f"{vm}-twin-v{family}", "twin", family, vm, TWIN_PORT))
            found.append(Session(f"{vm}-push-v{family}", "push", family, vm, PUSH_PORT))
    return found


class Program:
    """A program in the guest with a conversation line by line; its result is a JSON file there."""

    def __init__(self, cluster: Cluster, node: str | None, module: str, *words: str, result: str) -> None:
        self.cluster = cluster
        self.result = result
        self._said = bytearray()
        self._errors = bytearray()
        self._ended = threading.Event()
        reader, self._writer = os.pipe()
        argv = [*PYTHON, module, *words]
        self._thread = threading.Thread(target=self._play, args=(argv, node, reader), daemon=True)
        self._thread.start()

    def _play(self, argv: list[str], node: str | None, reader: int) -> None:
        with open(reader, "rb", buffering=0) as source, contextlib.suppress(ChannelError):
            self.cluster.channel.stream(argv, self._said.extend, self._errors.extend, node=node, stdin=source)
        self._ended.set()

    def wait_ready(self, timeout_s: float = 40.0) -> None:
        deadline = time.monotonic() + timeout_s
        while b"ready\n" not in self._said:
            assert not self._ended.is_set(), f"a traffic program ended: {self._errors.decode()[-1500:]}"
            assert time.monotonic() < deadline, f"a traffic program is not ready: {self._errors.decode()}"
            time.sleep(0.02)

    def tell(self, word: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, f"{word}\n".encode())

    def finish(self) -> Any:
        """Ends it and returns what it noted."""
        self.tell("quit")
        assert self._ended.wait(30), "a traffic program does not end"
        os.close(self._writer)
        told = self.cluster.attempt("cat", self.result)
        assert told.returncode == 0, f"a traffic program died: {self._errors.decode()[-1500:]}"
        return json.loads(told.stdout)

    def abandon(self) -> None:
        if not self._ended.is_set():
            self.tell("quit")
            self._ended.wait(10)
        with contextlib.suppress(OSError):
            os.close(self._writer)


@dataclass
class Traffic:
    """Sessions that are open. Moves are noted as they happen; the verdict comes at the end."""

    cluster: Cluster
    sessions: list[Session]
    server: Program = field(init=False)
    clients: dict[str, Program] = field(default_factory=dict)
    opened: float = 0.0
    """The guest's time at which all sessions were open."""
    moves: list[Move] = field(default_factory=list)
    vm_side: list[Capture] = field(default_factory=list)
    provider: Capture | None = None
    private: Sequence[str] = ()
    records: dict[str, Record] = field(default_factory=dict)

    def pause(self) -> None:
        """Lets every session pass data between two moves, as the judge wants to see it."""
        time.sleep(AFTER_S)

    @contextlib.contextmanager
    def move(self) -> Iterator[None]:
        """What happens in the block is one move."""
        began = self.cluster.now()
        yield
        self.moves.append(Move(began, self.cluster.now()))

    def finish(self, after_s: float = AFTER_S) -> dict[str, Record]:
        """Lets the sessions go on for a while after the last move and then end as planned."""
        time.sleep(after_s)
        span = (self.opened, self.cluster.now())
        for program in (self.server, *self.clients.values()):
            program.tell("stop")
        time.sleep(END_S)
        noted = {vm: program.finish() for vm, program in self.clients.items()}
        server = self.server.finish()
        for capture in self.captures():
            capture.stop()
        self.records = {s.name: record_of(s, noted[s.vm][s.name], server, span) for s in self.sessions}
        return self.records

    def captures(self) -> list[Capture]:
        return [*self.vm_side, *([self.provider] if self.provider else [])]

    def assert_clean_wire(self) -> None:
        """No RST and no ICMP unreachable met a session, no private source left, each kept its address."""
        assert self.provider is not None
        vm_side = [packet for capture in self.vm_side for packet in capture.packets()]
        outside = self.provider.packets()
        assert outside, "the capture on the provider network saw nothing"
        records = list(self.records.values())
        assert wire_counts(records, vm_side, outside, self.private) == Wire(0, 0, 0)
        several = {r.session.name: r.server_saw for r in records if len(r.server_saw) != 1}
        assert not several, f"seen on the wire with several addresses: {several}"

    def fates(self, records: dict[str, Record]) -> dict[str, str]:
        """By session: empty when it survived every move, else why not."""
        return {name: survived(record, self.moves) for name, record in records.items()}

    def assert_all_survived(self, after_s: float = AFTER_S) -> dict[str, Record]:
        """Ends the traffic; every session must have lived, seen by the server as one address and port."""
        records = self.finish(after_s)
        dead = {name: why for name, why in self.fates(records).items() if why}
        assert not dead, f"these sessions died: {dead}"
        several = {name: r.accepted for name, r in records.items() if len(r.accepted) != 1}
        assert not several, f"the server saw more than one address and port: {several}"
        return records


@contextlib.contextmanager
def playing(
    cluster: Cluster,
    sessions: list[Session],
    wire: Sequence[str] = (),
    real: Collection[str] = (),
    servers: Mapping[int, str] = SERVERS,
) -> Iterator[Traffic]:
    """Opens the sessions, VM after VM, so that it is known who took a port first.

    ``wire``: the private networks that must not be seen outside; the wire is captured when it is given.
    ``real``: which of the VMs are real ones; their programs are spoken to from beside them.
    ``servers``: where the VMs connect to, by family.
    """
    folder = f"/tmp/traffic-{next(_runs)}"
    cluster.run("mkdir", folder)
    programs: list[Program] = []
    made = Traffic(cluster, sessions, private=wire)

    def start(node: str | None, module: str, result: str, *words: str) -> Program:
        file = f"{folder}/{result}.json"
        program = Program(cluster, node, module, *words, file, result=file)
        programs.append(program)
        program.wait_ready()
        return program

    try:
        vms = list(dict.fromkeys(s.vm for s in sessions))
        if wire:
            made.vm_side, made.provider = captures(cluster, vms)
        made.server = start("outside", "devenv.demo.server", "server")
        for vm in vms:
            mine = to_json(s for s in sessions if s.vm == vm)
            asked = {str(family): address for family, address in servers.items()}
            order = f"{folder}/{vm}.order"
            text = json.dumps({"servers": asked, "sessions": mine})
            cluster.channel.run(["tee", order], stdin=text, check=True)
            node, module = (None, "realclient") if vm in real else (vm, "client")
            made.clients[vm] = start(node, f"devenv.demo.{module}", vm, order)
        made.opened = cluster.now()
        yield made
    finally:
        for program in programs:
            program.abandon()
        for capture in made.captures():
            capture.stop()
            capture.remove()
