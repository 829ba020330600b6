"""A model of a UDN's sessions and two nodes that replicate them: random steps, then the tables compared."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ovnmig.conntrack import Applier, NetlinkSocket, delete_records
from ovnmig.conntrack import attrs as a
from ovnmig.conntrack import messages as m
from ovnmig.core.transfer import AnnounceOrder, Peer, TransferOrder, TransferState
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.engine.perform import AGENT_ERRORS
from tests.bench.conntrack import sessions
from tests.netns import kernel as k
from tests.netns.bridges import Bridges
from tests.netns.nodes import SNAT, Site
from tests.netns.spaces import inside, run, sysctl

ZONES = {"a": 1100, "b": 1200}
UDN = "blue"
VM, SERVER, VIP = (
    {2: "10.1.0.5", 10: "fd00:10::5"},
    {2: "172.16.1.50", 10: "fd00:16::50"},
    {2: "172.16.1.100", 10: "fd00:16::100"},
)
TCP, UDP = 6, 17
SYN_SENT, ESTABLISHED, LAST_ACK = 1, 3, 6
FLOOD = 20_000
CONVERGE_S = 40.0


@dataclass(frozen=True)
class Session:
    """A flow of the VM: its tuple, and the port that it is translated to."""

    family: int
    proto: int
    port: int
    nat_port: int

    @property
    def key(self) -> tuple[int, int, int]:
        """What identifies its tuple."""
        return self.family, self.proto, self.port

    @property
    def orig(self) -> bytes:
        return k.tuple_attr(a.TUPLE_ORIG, self.proto, VM[self.family], SERVER[self.family], self.port, 443)

    def create(self, space: str, zone: int, state: int) -> int:
        """The entry as the kernel would have made it; returns the kernel's errno."""
        reply = k.tuple_attr(a.TUPLE_REPLY, self.proto, SERVER[self.family], VM[self.family], 443, self.port)
        parts = [self.orig, reply, k.nat_attr(a.NAT_SRC, VIP[self.family], self.nat_port)]
        if self.proto == TCP:
            parts.append(k.tcp_info(state))
        return k.create(space, zone, self.family, *parts, status=0xE, timeout_s=1000)

    def change(self, space: str, zone: int, mark: int, state: int) -> int:
        """Another mark, and for TCP another state; returns the kernel's errno."""
        payload = a.attr(a.ZONE, zone.to_bytes(2, "big")) + self.orig + k.word(a.MARK, mark)
        if self.proto == TCP:
            payload += k.tcp_info(state)
        flags = m.MessageFlag.REQUEST | m.MessageFlag.ACK
        return k.ask(space, m.message(m.CT_NEW, flags, 1, self.family, payload))

    def delete(self, space: str, zone: int) -> int:
        """Its end; returns the kernel's errno."""
        payload = a.attr(a.ZONE, zone.to_bytes(2, "big")) + self.orig
        flags = m.MessageFlag.REQUEST | m.MessageFlag.ACK
        return k.ask(space, m.message(m.CT_DELETE, flags, 1, self.family, payload))


def delete_key(space: str, zone: int, entry: Mapping[a.Path, bytes]) -> None:
    """The end of an entry of a table, whatever it is."""
    pieces = {path[1:]: value for path, value in entry.items() if path[0] == a.TUPLE_ORIG}
    inner = [
        a.nest(kind, *(a.attr(path[1], value) for path, value in sorted(pieces.items()) if path[0] == kind))
        for kind in (a.TUPLE_IP, a.TUPLE_PROTO)
    ]
    family = 10 if (a.TUPLE_IP, a.IP_V6_SRC) in pieces else 2
    payload = a.attr(a.ZONE, zone.to_bytes(2, "big")) + a.nest(a.TUPLE_ORIG, *inner)
    flags = m.MessageFlag.REQUEST | m.MessageFlag.ACK
    assert k.ask(space, m.message(m.CT_DELETE, flags, 1, family, payload)) == 0


class World:
    """Two nodes, one of which has the gateway, the sessions that live there, and a controller's orders."""

    def __init__(self, site: Site, agents: NodeAgents, bridges: dict[str, Bridges], seed: int) -> None:
        self.site = site
        self.agents = agents
        self.bridges = bridges
        self.random = random.Random(seed)
        self.owner, self.standby = "a", "b"
        self.epoch = 1
        self.live: dict[tuple[int, int, int], Session] = {}
        self.story: list[str] = []
        self.bridges["a"].claim()

    # What a controller does: level-triggered, every order harmless twice, an agent that is away asked again.

    def order(self) -> TransferOrder:
        node = self.site[self.standby]
        peer = Peer(node.name, node.address, 8789)
        return TransferOrder(f"keep-{self.standby}", UDN, self.epoch, peer, (SNAT,), keep=True)

    def announcement(self, name: str) -> AnnounceOrder:
        return AnnounceOrder(name, UDN, self.epoch, "cr-ext", "ln", "0a:58:ac:10:01:64", ("172.16.1.100",))

    async def look(self) -> str:
        """One look of the controller; the state of the copy, or why nothing is known of it."""
        try:
            await self.agents.arm(self.owner, self.announcement("own"))
            await self.agents.arm(self.standby, self.announcement("keep"))
            with suppress(*AGENT_ERRORS):
                await self.agents.end_transfer(self.standby, f"keep-{self.owner}")
            order = self.order()
            status = await self.agents.transfer(self.owner, order.id)
            if status is None or status.state not in (TransferState.IN_STEP, TransferState.COPYING):
                try:
                    status = await self.agents.start_transfer(self.owner, order)
                except AGENT_ERRORS:
                    await self.agents.end_transfer(self.owner, order.id)
                    raise
        except AGENT_ERRORS as error:
            return str(error) or type(error).__name__
        return status.state.value

    # Steps.

    def space(self, name: str) -> str:
        return self.site[name].space

    def open(self, count: int) -> None:
        """New sessions; tuples and translated ports that are free are used again and again."""
        used = {(s.family, s.proto, s.nat_port) for s in self.live.values()}
        for _ in range(count):
            family, proto = self.random.choice((2, 10)), self.random.choice((TCP, UDP))
            session = Session(
                family, proto, self.random.randrange(2000, 2200), self.random.randrange(3000, 3150)
            )
            if session.key in self.live or (family, proto, session.nat_port) in used:
                continue
            state = self.random.choice((SYN_SENT, ESTABLISHED))
            refused = session.create(self.space(self.owner), ZONES[self.owner], state)
            assert not refused, "\n".join([*self.story, f"{session} could not begin: {os.strerror(refused)}"])
            used.add((family, proto, session.nat_port))
            self.live[session.key] = session

    def some(self, share: float) -> list[Session]:
        return [s for s in self.live.values() if self.random.random() < share]

    def close(self, share: float) -> None:
        for session in self.some(share):
            assert session.delete(self.space(self.owner), ZONES[self.owner]) == 0
            del self.live[session.key]

    def change(self) -> None:
        for session in self.some(0.3):
            mark, state = self.random.randrange(1, 1 << 32), self.random.choice((ESTABLISHED, LAST_ACK))
            assert session.change(self.space(self.owner), ZONES[self.owner], mark, state) == 0

    def reborn(self) -> None:
        """Sessions that end and begin again at once, with the same tuple and another port outside."""
        before = len(self.live)
        self.close(0.3)
        self.open(3 * (before - len(self.live)))

    def vanish(self) -> None:
        """Copies are taken away from the standby by somebody else."""
        for session in self.some(0.3):
            session.delete(self.space(self.standby), ZONES[self.standby])

    def unheard(self) -> None:
        """Traffic in a kernel that tells nobody."""
        sysctl(self.space(self.owner), "nf_conntrack_events", 0)
        self.open(20)
        self.close(0.2)
        sysctl(self.space(self.owner), "nf_conntrack_events", 1)

    def flood(self) -> None:
        """More events than the agent's socket holds, while it does nothing; then it goes on."""
        agent = self.site[self.owner].agent
        assert agent is not None
        agent.send_signal(signal.SIGSTOP)
        crowd = sessions(FLOOD)
        with inside(self.space(self.owner), NetlinkSocket) as socket:
            Applier(socket).apply(crowd, ZONES[self.owner])
            self.open(20)
            self.close(0.2)
            delete_records(socket, crowd, ZONES[self.owner])
        agent.send_signal(signal.SIGCONT)

    async def cut(self) -> None:
        """The wire to the standby is out for a while; sessions go on."""
        port = f"v{11 + sorted(self.site.nodes).index(self.standby)}"
        run("ip", "-n", self.site.wire, "link", "set", port, "down")
        self.open(15)
        self.close(0.3)
        await asyncio.sleep(self.random.choice((0.2, 1.5, 4.0)))
        run("ip", "-n", self.site.wire, "link", "set", port, "up")

    async def restart(self, name: str) -> None:
        """An agent dies, and another one comes that remembers nothing."""
        self.site[name].kill_agent()
        self.open(15)
        self.close(0.3)
        self.site[name].start_agent()

    async def hand_over(self) -> None:
        """The standby takes the gateway unasked; what it holds then is what lives from now on.

        The former owner's entries die one after another meanwhile, and its agent tells of each.
        """
        old, new = self.owner, self.standby
        self.bridges[old].release()
        self.bridges[new].claim()
        for session in self.some(0.3):
            session.delete(self.space(old), ZONES[old])
        self.owner, self.standby, self.epoch = new, old, self.epoch + 1
        while (said := await self.look()) not in ("copying", "in-step", "connecting"):
            self.story.append(f"  look: {said}")
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)  # what the stream of the old epoch had in hand is written by then
        there = k.table(self.space(new), ZONES[new])
        orig = {self.path_key(one): one for one in self.live.values()}
        self.live = {one.key: one for key, one in orig.items() if key in there}
        for key in there.keys() - orig.keys():
            # It ended shortly before, and nobody could tell any more: it times out.
            delete_key(self.space(new), ZONES[new], there[key])

    def path_key(self, session: Session) -> bytes:
        """A session's key in a table."""
        index = a.index(session.orig, 0, len(session.orig))
        return b"".join(
            session.orig[offset : offset + length] for path, (offset, length) in sorted(index.items())
        )

    async def step(self) -> None:
        """One of all, by chance."""
        steps = {
            "open": lambda: self.open(40),
            "close": lambda: self.close(0.4),
            "reborn": self.reborn,
            "change": self.change,
            "vanish": self.vanish,
            "unheard": self.unheard,
            "flood": self.flood,
            "cut": self.cut,
            "restart-owner": lambda: self.restart(self.owner),
            "restart-standby": lambda: self.restart(self.standby),
            "hand-over": self.hand_over,
        }
        name = self.random.choice(list(steps))
        self.story.append(f"{name} ({len(self.live)} live, {self.owner} owns)")
        done = steps[name]()
        if done is not None:
            await done
        await asyncio.sleep(self.random.choice((0.0, 0.05, 0.3)))
        self.story.append(f"  look: {await self.look()}")

    async def settled(self) -> list[str]:
        """Looks until both tables agree; what still differs at the end of the time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CONVERGE_S
        while True:
            said = await self.look()
            left = self.differences()
            if not left and said == "in-step":
                return []
            if loop.time() > until:
                return [*left, f"the copy is {said}"]
            await asyncio.sleep(0.2)

    def differences(self) -> list[str]:
        """What the owner lost or has too much, and how the standby differs from it. Timeouts and the flags of
        a TCP entry are not compared: a copy has its own."""
        owner = k.table(self.space(self.owner), ZONES[self.owner])
        standby = k.table(self.space(self.standby), ZONES[self.standby])
        mine = {self.path_key(one) for one in self.live.values()}
        found = [
            f"the owner {'lost' if key in mine else 'has too much:'} {key.hex()}"
            for key in mine ^ owner.keys()
        ]
        for one in (*owner.values(), *standby.values()):
            for path in (
                (a.TIMEOUT,),
                *((a.PROTOINFO, a.PROTOINFO_TCP, n) for n in (a.TCP_FLAGS_ORIG, a.TCP_FLAGS_REPLY)),
            ):
                one.pop(path, None)
        return found + [f"the standby: {line}" for line in k.differences(owner, standby, moved=False)]
