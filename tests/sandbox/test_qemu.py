"""A real VM: QEMU migrates it live, ovnmig follows by itself, and the sessions of its own kernel live on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devenv.demo.plan import Session
from tests.sandbox.cluster import Cluster, eventually
from tests.sandbox.traffic import Traffic, pair_sessions, playing
from tests.sandbox.world import SERVERS, A, B, World, one_world

REACHES = "import sys; from devenv.guest import vm; sys.exit(not vm.reaches(*sys.argv[1:]))"
PAUSES = "import sys; from devenv.guest import qemurecord; print(len(qemurecord.moves(sys.argv[1])))"


@pytest.fixture
def mixed_world(trixie: Cluster) -> Iterator[World]:
    """A stand-in and a real VM behind one gateway, which follows the real one."""
    with one_world(trixie) as world:
        world.add_switch()
        standin, real = f"w{world.number}-1", f"w{world.number}-real"
        world.add_vm(real, kind="qemu")
        world.add_vm(standin)
        world.create(anchor=real)
        world.settle()
        for address in SERVERS.values():

            def reaches(address: str = address) -> bool:
                code = ("/usr/bin/python3", "-c", REACHES, real, address)
                return trixie.attempt(*code, timeout_s=120).returncode == 0

            eventually(f"{real} reaches {address}", reaches, 60)
        yield world


def sessions_of(world: World) -> tuple[str, list[Session]]:
    """The real VM, and sessions at ports where the stand-in was first: the real one's are translated."""
    real, standin = world.vms
    return real, pair_sessions(standin, real)


def translated(traffic: Traffic, real: str) -> set[str]:
    return {name for name, r in traffic.records.items() if r.session.vm == real and r.translated}


def test_the_sessions_of_a_real_vm_live_through_its_live_migration(mixed_world: World) -> None:
    world = mixed_world
    real, sessions = sessions_of(world)
    sessions.append(Session(f"{real}-download-v4", "download", 4, real))
    with playing(world.cluster, sessions, real=[real]) as traffic:
        with traffic.move():
            done = world.migrate(real, A, B)
        traffic.assert_all_survived()
    assert world.owner() == B
    assert done["nb_transactions"] <= 3
    assert world.cluster.python(PAUSES, real).strip() == "1"
    assert len(translated(traffic, real)) == 4
    assert traffic.records[f"{real}-download-v4"].checksum_right


def test_without_the_transfer_the_translated_sessions_of_a_real_vm_die(mixed_world: World) -> None:
    world = mixed_world
    real, sessions = sessions_of(world)
    with playing(world.cluster, sessions, real=[real]) as traffic:
        with traffic.move():
            world.migrate(real, A, B, transfer="none")
        fates = traffic.fates(traffic.finish(after_s=6))
    assert len(translated(traffic, real)) == 4
    alive = [name for name in translated(traffic, real) if not fates[name]]
    assert not alive, f"they lived without their entries, so their survival proves nothing: {alive}"
