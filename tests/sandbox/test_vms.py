"""The VM stand-ins really migrate: OVN binds them elsewhere and their sockets live on. No ovnmig here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devenv.demo.plan import Session
from tests.sandbox.cluster import Cluster
from tests.sandbox.traffic import playing
from tests.sandbox.world import SERVERS, A, B, World, one_world


@pytest.fixture
def routed(each: Cluster) -> Iterator[World]:
    """A VM with a bridged way to the outside server: a localnet port on its own switch, no router, no NAT."""
    with one_world(each) as world:
        world.add_switch()
        words = f"lsp-add {world.name} {world.name}-net -- lsp-set-type {world.name}-net localnet"
        words += f" -- lsp-set-addresses {world.name}-net unknown"
        words += f" -- lsp-set-options {world.name}-net network_name=public"
        each.nbctl(*words.split())
        vm = f"w{world.number}-1"
        addresses = [f"172.16.1.{world.number}/24", f"fd00:172:16:1::{world.number:x}/64"]
        world.vms.append(vm)
        words = " ".join(f"--address {a}" for a in addresses)
        each.tool("vm", "add", vm, *words.split(), "--switch", world.name, "--on", A)
        each.nbctl("--wait=hv", "sync")
        world.wait_reachable()
        yield world


@pytest.mark.parametrize("binding", ["requested", "presence"])
def test_a_bridged_vm_keeps_its_sessions_when_it_moves(routed: World, binding: str) -> None:
    cluster, vm = routed.cluster, routed.vms[0]
    sessions = [Session(f"push-v{family}", "push", family, vm) for family in SERVERS]
    with playing(cluster, sessions) as traffic:
        with traffic.move():
            routed.move_vm(vm, A, B, binding=binding)
            cluster.tool("vm", "wait", vm, B)
        traffic.assert_all_survived()
