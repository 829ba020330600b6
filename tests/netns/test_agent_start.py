"""An agent's start and end: what it needs, what it says when that is missing, who may give it orders."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import httpx2
import pytest

from ovnmig import pki
from ovnmig.conntrack import table_stats
from ovnmig.core.transfer import AnnounceOrder, ReadinessOrder, TransferState
from ovnmig.drivers.node_agent import NodeAgents
from ovnmig.engine.protocols import AgentRefused, AgentUnreachable
from ovnmig.pki import Identity, KeyFiles, Role
from tests.bench.conntrack import sessions
from tests.netns.nodes import SNAT, Site, eventually, reached, site
from tests.netns.spaces import inside
from tests.netns.test_agent_transfer import A_ZONE, B_ZONE, fill, held

ONLY_NET_ADMIN = ("setpriv", "--bounding-set=-all,+net_admin", "--no-new-privs")
ANNOUNCE = AnnounceOrder("m1", "blue", 1, "cr-ext", "ln", "0a:58:ac:10:01:64", ("172.16.1.100",))


pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def still() -> Iterator[Site]:
    """Nodes whose agents do not run yet."""
    with site("a", "b", agents=()) as made:
        yield made


def refused_start(where: Site, name: str = "a") -> str:
    """The one line an agent that cannot start ends with."""
    where[name].start_agent()
    agent = where[name].agent
    assert agent is not None
    assert agent.wait(30) == 1
    return where[name].log().strip().splitlines()[-1]


def test_net_admin_is_the_only_capability_it_needs(still: Site) -> None:
    for name in ("a", "b"):
        still[name].start_agent(*ONLY_NET_ADMIN)
    fill(still, "a", A_ZONE, sessions(100))

    async def scenario(agents: NodeAgents) -> None:
        for name in ("a", "b"):
            await eventually(lambda name=name: agents.node(name))  # type: ignore[misc]
        await agents.start_transfer("a", still.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        await agents.finish_transfer("a", "m1")

    still.drive(scenario)
    assert len(held(still, "b", B_ZONE)) == 100
    assert inside(still["b"].space, table_stats).events == 1


def test_without_net_admin_it_says_so_and_ends(still: Site) -> None:
    still["a"].start_agent("setpriv", "--bounding-set=-all", "--no-new-privs")
    agent = still["a"].agent
    assert agent is not None
    assert agent.wait(30) == 1
    assert "CAP_NET_ADMIN" in still["a"].log()


def test_what_is_missing_on_the_node_is_named(still: Site, tmp_path: Path) -> None:
    node = still["a"]
    certificate = node.pki_dir / "a.crt"
    certificate.rename(tmp_path / "a.crt")
    assert "a.crt is missing" in refused_start(still)
    copy(node.pki_dir / "b.crt", certificate)
    assert "do not fit together" in refused_start(still)
    certificate.unlink()
    (tmp_path / "a.crt").rename(certificate)
    node.vsctl("remove", "Open_vSwitch", ".", "external_ids", "ovn-encap-ip")
    assert "ovn-encap-ip" in refused_start(still)
    node.vsctl("set", "Open_vSwitch", ".", "external_ids:ovn-encap-ip=10.77.0.99")
    assert "cannot listen for streams on 10.77.0.99:8789" in refused_start(still)
    node.vsctl("set", "Open_vSwitch", ".", "external_ids:system-id=b")
    copy(node.pki_dir / "a.crt", node.pki_dir / "b.crt")
    copy(node.pki_dir / "a.key", node.pki_dir / "b.key")
    assert "is for chassis 'a', this is chassis 'b'" in refused_start(still)
    node.vsctl("remove", "Open_vSwitch", ".", "external_ids", "system-id")
    assert "system-id" in refused_start(still)
    (node.rundir / "db.sock").rename(node.rundir / "away")
    assert "is ovsdb-server running" in refused_start(still)


def test_it_ends_cleanly_when_asked_to(still: Site) -> None:
    still["a"].start_agent()
    still.drive(lambda agents: eventually(lambda: agents.node("a")))
    assert still["a"].kill_agent(hard=False) == 0
    assert "Traceback" not in still["a"].log()


def test_orders_and_questions_are_for_a_controller_only(still: Site) -> None:
    still["a"].start_agent()
    still.drive(lambda agents: eventually(lambda: agents.node("a")))

    async def scenario(agents: NodeAgents) -> None:
        for attempt in (
            agents.node("a"),
            agents.readiness("a", ReadinessOrder()),
            agents.start_transfer("a", still.order()),
            agents.transfer("a", "m1"),
            agents.finish_transfer("a", "m1"),
            agents.end_transfer("a", "m1"),
            agents.arm("a", ANNOUNCE),
            agents.announcement("a", "m1"),
            agents.disarm("a", "m1"),
        ):
            with pytest.raises(AgentRefused, match="a controller only; this certificate is for chassis 'b'"):
                await attempt

    still.drive(scenario, holder="b")


def test_who_shows_no_certificate_of_the_ca_gets_no_answer_at_all(still: Site, tmp_path: Path) -> None:
    still["a"].start_agent()
    still.drive(lambda agents: eventually(lambda: agents.node("a")))
    pki.init_ca(tmp_path)
    pki.issue(tmp_path, Identity(Role.CONTROLLER, "controller"))
    copy(still.pki_dir / "ca.crt", tmp_path / "ca.crt")
    foreign = pki.client_context(KeyFiles.of(tmp_path, "controller"), Identity(Role.CHASSIS, "a"))
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(still.pki_dir / "ca.crt")

    async def ask() -> None:
        for context in (foreign, bare):
            async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
                with pytest.raises(httpx2.TransportError):
                    await client.get(f"https://{still['a'].address}:8788/livez")

    inside(still.wire, lambda: asyncio.run(ask()))


def test_an_agent_that_is_someone_else_gets_no_order(still: Site) -> None:
    still["a"].start_agent()
    still.drive(lambda agents: eventually(lambda: agents.node("a")))
    still["b"].address = still["a"].address

    async def scenario(agents: NodeAgents) -> None:
        with pytest.raises(AgentUnreachable, match="for chassis 'a', not chassis 'b'"):
            await agents.start_transfer("b", still.order("b", "a"))
        still["b"].address = "10.77.0.99"
        with pytest.raises(AgentUnreachable, match="does not answer"):
            await agents.node("b")

    still.drive(scenario)


def test_readiness_is_what_the_node_shows_now(still: Site) -> None:
    still["a"].start_agent()
    still.drive(lambda agents: eventually(lambda: agents.node("a")))
    fill(still, "a", A_ZONE, sessions(7))

    async def scenario(agents: NodeAgents) -> None:
        order = ReadinessOrder((SNAT,), ("b",), "public")
        found = await agents.readiness("a", order)
        assert found.zones == {SNAT.key: A_ZONE}
        assert found.zone_entries == {SNAT.key: 7}
        assert found.bfd == {"b": "down"}
        assert "does not map physical network 'public', only: none" in found.uplink
        still["a"].vsctl("set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings=public:br-ex")
        found = await eventually(lambda: agents.readiness("a", order), lambda one: "br-ex" in one.uplink)
        assert "does not exist" in found.uplink
        still["a"].vsctl("br-set-external-id", "br-int", f"ct-zone-{SNAT.name}_snat")
        found = await eventually(lambda: agents.readiness("a", order), lambda one: not one.zones)
        assert found.zone_entries == {}
        node = await agents.node("a")
        assert (node.chassis, node.stream_port, node.problems) == ("a", 8789, ())

    still.drive(scenario)


def test_metrics_tell_of_the_transfers(still: Site) -> None:
    for name in ("a", "b"):
        still[name].start_agent()
    fill(still, "a", A_ZONE, sessions(3))
    context = pki.client_context(KeyFiles.of(still.pki_dir, "controller"), Identity(Role.CHASSIS, "a"))

    async def scenario(agents: NodeAgents) -> str:
        for name in ("a", "b"):
            await eventually(lambda name=name: agents.node(name))  # type: ignore[misc]
        await agents.start_transfer("a", still.order())
        await reached(agents, "a", "m1", TransferState.IN_STEP)
        async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
            base = f"https://{still['a'].address}:8788"
            assert (await client.get(f"{base}/livez")).text == "ok\n"
            missing = await client.get(f"{base}/v1/nothing")
            assert missing.headers["content-type"] == "application/problem+json"
            wrong = await client.put(f"{base}/v1/transfers/m2", json={"id": "m2"})
            assert (wrong.status_code, wrong.json()["type"]) == (422, "urn:ovnmig:invalid")
            return (await client.get(f"{base}/metrics")).text

    text = still.drive(scenario)
    assert 'ovnmig_agent_transfer_entries{fate="created",transfer="m1"} 3.0' in text
    assert "ovnmig_agent_conntrack_entries_max" in text
