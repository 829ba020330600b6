"""What the demo plays: the sessions, the runs, and which sessions each run must keep or kill."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

SERVER_PORTS = {"download": 7001, "request": 7002, "push": 7003, "twin": 7004, "udp": 7005}
"""One server port per kind, so that a client that sends no payload is still told apart."""

TWIN_PORT = 20001
PUSH_PORT = 21001
"""Source ports that two VMs use at once to one server port: one of the two must be port-translated."""

BASELINE_S = 8.0
AFTER_MOVE_S = 15.0
RESUME_S = 10.0
"""After a move, data has to flow again within this time."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session of the demo. ``source_port`` 0: the VM's kernel chooses."""

    name: str
    kind: str
    family: int
    vm: str
    source_port: int = 0

    @property
    def server_port(self) -> int:
        """The server port that this kind talks to."""
        return SERVER_PORTS[self.kind]

    @property
    def protocol(self) -> str:
        """``udp`` or ``tcp``."""
        return "udp" if self.kind == "udp" else "tcp"


def sessions() -> tuple[Session, ...]:
    """All sessions, in the order in which their VMs connect: the first of a pair keeps its port."""
    found: list[Session] = []
    for family in (4, 6):
        found += [
            Session(f"vm1-download-v{family}", "download", family, "vm1"),
            Session(f"vm1-twin-v{family}", "twin", family, "vm1", TWIN_PORT),
            Session(f"vm2-twin-v{family}", "twin", family, "vm2", TWIN_PORT),
            Session(f"vm2-request-v{family}", "request", family, "vm2"),
            Session(f"vm2-push-v{family}", "push", family, "vm2", PUSH_PORT),
            Session(f"vm3-push-v{family}", "push", family, "vm3", PUSH_PORT),
            Session(f"vm3-udp-v{family}", "udp", family, "vm3"),
        ]
    return tuple(sorted(found, key=lambda s: s.vm))


@dataclass(frozen=True, slots=True)
class Run:
    """One run. ``way`` is how a leg is made: by ovnmig (``full``, ``none``: with or without entries;
    ``pinned``: the gateway stays) or by hand as today (``node-address``). ``legs``: where to, in order."""

    name: str
    way: str
    legs: tuple[str, ...]
    says: str


RUNS = (
    Run(
        "transfer",
        "full",
        ("b", "a"),
        "the VMs move and the gateway with them, its entries first",
    ),
    Run("pinned", "pinned", ("b", "a"), "the VMs move, the gateway stays on its HA set"),
    Run("no-transfer", "none", ("b",), "control: the gateway moves without its entries"),
    Run("node-address", "node-address", ("b",), "control: today's world, SNAT to the node's own address"),
)


def expectation(run: Run, session: Session, translated: bool) -> str:
    """``survive``, ``die`` or ``either``: what must become of ``session`` in ``run``.

    Without entries a flow whose port was translated cannot come back: the new node picks another port, or
    (push) knows no entry at all. A flow that kept its port is often picked up mid-stream by the kernel, so it
    proves nothing.
    """
    if run.way in ("full", "pinned"):
        return "survive"
    if run.way == "node-address":
        return "die" if session.protocol == "tcp" else "either"
    return "die" if translated else "either"


def to_json(chosen: Iterable[Session]) -> list[dict[str, object]]:
    """The sessions as plain data, for the traffic programs' command lines."""
    return [asdict(session) | {"server_port": session.server_port} for session in chosen]
