"""Real UDP and echo requests through SNAT gateways, and entries that the kernel made from packets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ovnmig.conntrack import Applier, decode, encode, entries, read_zone
from tests.netns import kernel as k
from tests.netns.gateways import PORT, ZONE_A, ZONE_B, Stage, stage
from tests.netns.spaces import within


@pytest.fixture(params=[4, 6], ids=["ipv4", "ipv6"])
def world(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The stage in both families."""
    with stage(request.param) as made:
        yield made


def _transfer(world: Stage) -> None:
    batch = decode(encode(read_zone(world.read, ZONE_A)))
    outcome = Applier(world.write).apply(batch, ZONE_B)
    assert outcome.created == outcome.total == len(batch) > 0


def _ask(world: Stage, client: socket.socket, server: socket.socket) -> tuple[str, int]:
    """One request and its answer; whom the server saw."""
    client.sendto(b"question", (world.server_address, PORT))
    data, seen = server.recvfrom(100)
    server.sendto(data[::-1], seen)
    assert client.recv(100) == data[::-1]
    return str(seen[0]), int(seen[1])


def test_udp_keeps_its_outside_port_with_a_transfer(world: Stage) -> None:
    client, server = world.datagrams()
    before = _ask(world, client, server)
    _transfer(world)
    world.switch()
    assert _ask(world, client, server) == before


def test_udp_is_seen_from_another_port_without_a_transfer(world: Stage) -> None:
    client, server = world.datagrams()
    before = _ask(world, client, server)
    world.switch()
    assert _ask(world, client, server)[1] != before[1]


def test_a_udp_answer_that_comes_first_finds_its_way_with_a_transfer_only(world: Stage) -> None:
    client, server = world.datagrams()
    seen = _ask(world, client, server)
    world.switch()
    client.settimeout(1)
    server.sendto(b"lost", seen)
    with pytest.raises(TimeoutError):
        client.recv(100)
    # The lost answer left an entry of its own, reversed and untranslated, on the address and port.
    outcome = Applier(world.write).apply(read_zone(world.read, ZONE_A), ZONE_B)
    assert (outcome.replaced, outcome.total) == (1, 1)
    server.sendto(b"found", seen)
    assert client.recv(100) == b"found"


def test_entries_made_by_packets_of_every_kind_arrive_unchanged(world: Stage) -> None:
    client, server = world.datagrams()
    _ask(world, client, server)
    world.connect(world.listen())
    within(world.vm, "ping", "-c", "1", "-W", "2", world.server_address)
    before = k.table(world.a, ZONE_A)
    batch = read_zone(world.read, ZONE_A)
    protocols = {entry.proto for group in batch for entry in entries(group)}
    assert protocols == {"tcp", "udp", "icmp" if world.family == 4 else "icmpv6"}
    assert all(entry.nat_src is not None for group in batch for entry in entries(group))
    _transfer(world)
    assert k.differences(before, k.table(world.b, ZONE_B)) == []
