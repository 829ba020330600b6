"""UDNs on real OVN: what is created works, what is deleted leaves the database as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devenv.demo.plan import Session
from tests.sandbox import database
from tests.sandbox.cluster import CHASSIS, Cluster
from tests.sandbox.rest import udn_path
from tests.sandbox.traffic import pair_sessions, playing
from tests.sandbox.world import SERVERS, World, furnished, one_world


@pytest.mark.parametrize("families", [(4,), (6,), (4, 6)], ids=["ipv4", "ipv6", "dual-stack"])
def test_a_udn_is_created_used_and_deleted_without_a_trace(each: Cluster, families: tuple[int, ...]) -> None:
    with furnished(each, families=families) as world:
        before = database.dump(each)
        made = world.create()
        assert made["changed"] is True
        assert {m["chassis"] for m in made["members"]} <= set(CHASSIS)
        assert made["protected"] is True
        assert made["placement"].keys() == set(CHASSIS)
        again = each.rest.call("POST", "/v1/udns", world.body())
        assert (again.status, again.body["changed"], again.body["epoch"]) == (200, False, made["epoch"])
        assert world.name in [udn["name"] for udn in each.rest.ok("GET", "/v1/udns")["udns"]]
        each.rest.wait("an owner", world.path, lambda udn: bool(udn["owner"]))
        world.wait_reachable()
        assert world.udn()["drift"] == []
        sessions = pair_sessions(*world.vms, families=families)
        with playing(each, sessions) as traffic:
            records = traffic.assert_all_survived()
        vips = {vip.split("/")[0] for vip in world.vips}
        assert {r.accepted[0].rpartition(":")[0] for r in records.values()} == vips
        assert each.rest.call("DELETE", world.path).status == 204
        assert each.rest.call("GET", world.path).status == 404
        assert database.differences(before, database.dump(each)) == []


def test_a_changed_vip_is_one_transaction_and_carries_traffic(each_world: World) -> None:
    world, cluster = each_world, each_world.cluster
    made = world.create()
    world.wait_reachable()
    changed = [f"172.16.1.{world.number - 75}/24", f"fd00:172:16:1::{world.number - 75:x}/64"]
    body = world.body(vips=changed)
    answer = cluster.rest.ok("PUT", world.path, body)
    assert answer["vips"] == changed
    assert answer["epoch"] == made["epoch"] + 1, "one transaction is one step of the epoch"
    assert (answer["inner_mac"], answer["external_mac"]) == (made["inner_mac"], made["external_mac"])
    cluster.nbctl("--wait=hv", "sync")
    world.wait_reachable()
    sessions = [Session(f"ask-v{family}", "request", family, world.vms[0]) for family in SERVERS]
    with playing(cluster, sessions) as traffic:
        records = traffic.assert_all_survived()
    seen = {r.accepted[0].rpartition(":")[0] for r in records.values()}
    assert seen == {vip.split("/")[0] for vip in changed}


def test_translated_ports_come_from_the_asked_range(world: World) -> None:
    world.create(port_range="20000-20099")
    world.wait_reachable()
    vm = world.vms[0]
    sessions = [Session(f"ask-v{family}", "request", family, vm, 45001) for family in SERVERS]
    with playing(world.cluster, sessions) as traffic:
        records = traffic.assert_all_survived()
    ports = [int(r.accepted[0].rpartition(":")[2]) for r in records.values()]
    assert all(20000 <= port <= 20099 for port in ports), ports


def neighbour(cluster: Cluster, address: str, device: str) -> str:
    """What the outside knows of an address on a device; empty when nothing."""
    return cluster.run("ip", "neigh", "show", address, "dev", device, node="outside")


@pytest.fixture
def tagged_outside(trixie: Cluster) -> Iterator[int]:
    """The outside speaks on VLAN 7 as well: 172.16.7.1 and fd00:172:16:7::1."""
    script = (
        "ip link add link eth0 name eth0.7 type vlan id 7 && ip link set eth0.7 up && "
        "ip addr add 172.16.7.1/24 dev eth0.7 && ip addr add fd00:172:16:7::1/64 dev eth0.7 nodad"
    )
    trixie.run("sh", "-ec", script, node="outside")
    try:
        yield 7
    finally:
        trixie.run("ip", "link", "del", "eth0.7", node="outside")


def test_a_vlan_of_the_physical_network_is_used(world: World, tagged_outside: int) -> None:
    made = world.create(
        vlan=tagged_outside,
        vips=["172.16.7.9/24", "fd00:172:16:7::9/64"],
        nexthops=["172.16.7.1", "fd00:172:16:7::1"],
    )
    for address in ("172.16.7.1", "fd00:172:16:7::1"):
        world.cluster.rest.wait("an owner", world.path, lambda udn: bool(udn["owner"]))
        assert any(world.ping(world.vms[0], address) for _ in range(20)), address
    for vip in ("172.16.7.9", "fd00:172:16:7::9"):
        assert made["external_mac"] in neighbour(world.cluster, vip, "eth0.7")
        assert not neighbour(world.cluster, vip, "eth0"), "the VIP is seen on the untagged network"


def test_a_switch_made_on_request_goes_with_the_udn(trixie: Cluster) -> None:
    with one_world(trixie) as world:
        before = database.dump(trixie)
        made = world.create(create_switch=True)
        assert (made["switch"], made["switch_owned"]) == (world.name, True)
        world.add_vm(f"w{world.number}-1")
        world.wait_reachable()
        trixie.tool("vm", "del", world.vms.pop())
        trixie.nbctl("lsp-del", f"w{world.number}-1")
        assert trixie.rest.call("DELETE", world.path).status == 204
        assert database.differences(before, database.dump(trixie)) == []


def test_a_name_with_spaces_dots_quotes_and_letters_of_the_world_works(trixie: Cluster) -> None:
    name = 'büro "süd" 1.2'
    with furnished(trixie, name=name) as world:
        world.create()
        world.settle()
        world.wait_reachable()
        assert trixie.rest.ok("GET", udn_path(name))["name"] == name
        with playing(trixie, pair_sessions(*world.vms)) as traffic:
            with traffic.move():
                world.migrate(world.vms[0], CHASSIS[0], CHASSIS[1])
            traffic.assert_all_survived()


def test_two_udns_with_overlapping_subnets_are_isolated(trixie: Cluster) -> None:
    with furnished(trixie) as one, furnished(trixie, inner=one.number) as two:
        for world in (one, two):
            world.create()
        for world in (one, two):
            world.wait_reachable()
        sessions = pair_sessions(one.vms[0], two.vms[0])
        with playing(trixie, sessions) as traffic:
            records = traffic.assert_all_survived()
        for world in (one, two):
            mine = {
                r.accepted[0].rpartition(":")[0] for n, r in records.items() if n.startswith(world.vms[0])
            }
            assert mine == {vip.split("/")[0] for vip in world.vips}
        host = f"10.{one.number}.0.12"
        trixie.run("ip", "addr", "add", f"10.{one.number}.0.77/24", "dev", "br0", node=one.vms[1])
        assert one.ping(one.vms[0], host)
        assert not two.ping(two.vms[0], f"10.{one.number}.0.77"), "a packet crossed from one UDN to the other"
