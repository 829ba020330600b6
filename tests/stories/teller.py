"""Runs a story script line by line on the engine's fakes and tells what happened: the journal, the
transactions in the Northbound database, the orders to agents, each with the time since the story began.

A script's lines: ``# comment``, ``> command``, and below each command what it must tell. Commands are methods
of :class:`Teller` named ``do_<verb>``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from ovnmig.core.migration import Binding, MigrationRequest, TransferMode, Trigger
from ovnmig.core.transfer import TransferState
from ovnmig.core.udn import Policy, Refused, Replication
from ovnmig.engine.protocols import Conflict, DatabaseUnavailable, NotFound, NotLeader
from tests.engine.world import Running, World, a_udn

ANSWERS = (Refused, Conflict, NotFound, NotLeader, DatabaseUnavailable)


class Teller:
    """One story: a world, at most one controller process, and the lines told so far."""

    def __init__(self) -> None:
        self.world = World()
        self.world.nb.orders = self.world.agents.log
        self.one: Running | None = None
        self.lives = 0
        self.began = self.world.clock.now()
        self.told = 0
        self.logged = 0

    async def run(self, script: str) -> str:
        """The script with everything below its commands told anew."""
        out: list[str] = []
        for line in script.splitlines():
            if line.startswith("> "):
                out.append(line)
                out.extend(f"  {told}" for told in await self._command(line[2:].split()))
            elif line.startswith("#") or not line.strip():
                out.append(line)
        if self.one is not None:
            await self.one.__aexit__(None, None, None)
        return "\n".join(out) + "\n"

    async def _command(self, words: list[str]) -> list[str]:
        act: Callable[..., Awaitable[str | None]] = getattr(self, f"do_{words[0].replace('-', '_')}")
        try:
            answer = await act(*words[1:])
        except ANSWERS as error:
            answer = f"{type(error).__name__}: {error}"
        return [*self._news(), *([f"= {answer}"] if answer else [])]

    def _news(self) -> list[str]:
        events = self.world.history.events[self.told :]
        self.told = len(self.world.history.events)
        orders = self.world.agents.log[self.logged :]
        self.logged = len(self.world.agents.log)
        lines = [f"* {order}" for order in orders]
        lines += [
            f"{event.at - self.began:8.1f} {event.udn or '-'} {event.kind}: {event.message}"
            for event in events
        ]
        return lines

    def _one(self) -> Running:
        assert self.one is not None, "the story needs `start` first"
        return self.one

    async def do_start(self) -> None:
        """A controller process begins."""
        self.lives += 1
        self.one = await self.world.controller(f"life {self.lives}").__aenter__()

    async def do_kill(self) -> None:
        """The controller process dies."""
        await self._one().__aexit__(None, None, None)
        self.one = None

    async def do_create(self, name: str, *options: str) -> str:
        """Create a UDN; options: ``pinned``, ``lone``, ``replicated``."""
        request = a_udn(name)
        if "pinned" in options:
            request = replace(request, policy=Policy.PINNED)
        if "replicated" in options:
            request = replace(request, replication=Replication.CONTINUOUS)
        if "lone" in options:
            request = replace(request, standby_count=0)
        state = await self._one().api.create_udn(request)
        return f"owner {state.owner}, members {self._members(name)}"

    def _members(self, name: str) -> str:
        members = sorted(self.world.nb.members(name).items(), key=lambda item: -item[1])
        return " ".join(f"{chassis}:{priority}" for chassis, priority in members)

    async def do_migrate(self, udn: str, port: str, target: str, *options: str) -> str:
        """Ask for a migration (port ``-``: only the gateway); options: manual, none, external, key=K."""
        key = next((word[4:] for word in options if word.startswith("key=")), None)
        external = "external" in options or port == "-"
        record = await self._one().api.migrate(
            MigrationRequest(
                udn=udn,
                target=target,
                port=None if port == "-" else port,
                binding=Binding.EXTERNAL if external else Binding.OVNMIG,
                trigger=Trigger.MANUAL if "manual" in options else Trigger.AUTO,
                transfer=TransferMode.NONE if "none" in options else TransferMode.FULL,
                gateway=True if port == "-" else None,
                idempotency_key=key,
            )
        )
        return f"{record.id} {record.phase.value}"

    async def do_plan(self, udn: str, port: str, target: str) -> str:
        """A dry run of a migration."""
        dry = await self._one().api.dry_run(
            MigrationRequest(udn=udn, target=target, port=port, binding=Binding.OVNMIG)
        )
        return "; ".join(problem.message for problem in dry.problems) or "; ".join(dry.plan)

    async def do_until(self, ident: str, *phases: str) -> str:
        """Let time pass until the migration is in one of the phases."""
        record = await self._one().until(ident, *phases)
        return (
            f"{record.phase.value}, waits for {record.waits_for}" if record.waits_for else record.phase.value
        )

    async def do_pass(self, seconds: str) -> None:
        """Let time pass."""
        await self.world.clock.pass_time(float(seconds))

    async def do_switch(self, ident: str) -> str:
        """Order the switch."""
        return (await self._one().api.switch(ident)).phase.value

    async def do_cancel(self, ident: str) -> str:
        """Order the cancel."""
        return (await self._one().api.cancel(ident)).phase.value

    async def do_plug(self, vm: str, chassis: str) -> None:
        """The VM's interface appears on its target."""
        self.world.plug(vm, chassis)

    async def do_arrive(self, vm: str, chassis: str) -> None:
        """The VM runs on its target and sends its RARP."""
        self.world.arrive(vm, chassis)
        await self.world.clock.settle()

    async def do_bound(self, vm: str, chassis: str) -> None:
        """SB shows the VM bound on one chassis only."""
        self.world.settle_binding(vm, chassis)
        await self.world.clock.settle()

    async def do_agent(self, chassis: str, what: str, *words: str) -> None:
        """An agent's fate: ``down WORDS``, ``up``, ``restart``, ``slow`` (copies without end), ``quick``,
        ``reconnects`` (tries to reach its peer again)."""
        agent = self.world.agents.nodes[chassis]
        match what:
            case "down":
                agent.down = " ".join(words)
            case "up":
                agent.down = ""
            case "restart":
                agent.restart()
            case "slow":
                agent.copy_state = TransferState.COPYING
            case "reconnects":
                agent.copy_state, agent.notices_dead_peer = TransferState.CONNECTING, False
            case "quick":
                agent.copy_state = TransferState.IN_STEP
            case _:
                raise AssertionError(what)

    async def do_bfd(self, chassis: str, peer: str, state: str) -> None:
        """BFD on a tunnel, as the agent of ``chassis`` sees it."""
        self.world.agents.nodes[chassis].bfd[peer] = state

    async def do_node_dies(self, chassis: str, heir: str, udn: str) -> None:
        """A whole node goes: its agent is silent, OVN gives the gateway to ``heir``."""
        self.world.agents.nodes[chassis].down = "no route to host"
        self.world.dead.add(chassis)
        self.world.sb.bind(f"cr-ovnmig-{udn}-ext", heir)

    async def do_node_returns(self, chassis: str) -> None:
        """A node boots: its agent remembers nothing, and OVN may give it what it has the priority for."""
        self.world.agents.nodes[chassis].down = ""
        self.world.agents.nodes[chassis].restart()
        self.world.dead.discard(chassis)
        self.world.reclaim()

    async def do_link(self, source: str, what: str) -> None:
        """The wire between the agents of ``source`` and its standbys: ``cut`` or ``whole``."""
        self.world.agents.nodes[source].confirmed_s = 9.0 if what == "cut" else 0.2

    async def do_copies(self, udn: str) -> str:
        """How the standbys' copies stand."""
        state = await self._one().api.udn(udn)
        return ", ".join(f"{one.chassis} {one.state.value}" for one in state.replication) or "no copies"

    async def do_holds(self, chassis: str) -> str:
        """What an agent goes on with until it is told to stop."""
        held = await self.world.agents.orders(chassis)
        return ", ".join(f"{one.kind.value} {one.id}" for one in held) or "nothing"

    async def do_nb(self, *words: str) -> None:
        """The Northbound database: ``down WORDS`` or ``up``."""
        self.world.nb.down = " ".join(words[1:]) if words[0] == "down" else ""

    async def do_show(self, udn: str) -> str:
        """The UDN's owner and members, and the VM's port."""
        state = await self._one().api.udn(udn)
        port = " ".join(f"{key}={value}" for key, value in sorted(self.world.nb.ports["vm1"].items()))
        return f"owner {state.owner}, members {self._members(udn)}, vm1 {port or '(no options)'}"

    async def do_result(self, ident: str) -> str:
        """How a migration ended."""
        record = await self._one().api.migration(ident)
        parts = [f"{record.phase.value} in {record.nb_transactions} transactions"]
        parts += [record.reason] if record.reason else []
        parts += [f"warning: {words}" for words in record.warnings]
        parts += ["early arrival"] if record.arrived_early else []
        return "; ".join(parts)
