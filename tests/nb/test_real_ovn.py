"""northd and ovn-controller on what ovnmig writes: they accept it, claim it, and forget it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import anyio
import pytest

from ovnmig.core import placement, topology
from ovnmig.core.rows import PortEdit
from ovnmig.core.udn import Policy, UdnSpec
from ovnmig.core.validate import resolve
from ovnmig.core.views import SbView
from ovnmig.drivers.ovn_nb import OvnNorthbound
from ovnmig.drivers.ovn_sb import OvnSouthbound
from tests.core.worlds import REQUEST
from tests.nb.cluster import Cluster
from tests.nb.world import change, deletion

# The dummy datapath passes no packets, so BFD never comes up and only a lone candidate claims the port.
LONE = replace(REQUEST, switch="net", policy=Policy.FOLLOW, standby_count=0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster({"a": "phys:br-ex", "b": "phys:br-ex", "x": "other:br-ex"})
    made.nbctl("ls-add", "net", "--", "lsp-add", "net", "vm1", "--", "lsp-set-addresses", "vm1", "unknown")
    made.chassis["b"].plug("vm1")
    yield made
    made.end()


async def wait(sb: OvnSouthbound, port: str, by: str) -> bool:
    def holds(view: SbView) -> bool:
        binding = view.binding(port)
        return binding is not None and binding.chassis == by

    return await sb.wait_until(holds, 15)


async def resolved(nb: OvnNorthbound, sb: OvnSouthbound, name: str) -> UdnSpec:
    return resolve(replace(LONE, name=name), await nb.view(), await sb.view(), owner="house")


async def settled(cluster: Cluster) -> None:
    """Return when northd has had nothing to do for a while: chassis report ports after the sync."""
    with anyio.fail_after(20):
        for _ in range(40):
            runs = cluster.northd_recomputes()
            await anyio.sleep(0.5)
            if cluster.northd_recomputes() == runs:
                return


@pytest.mark.parametrize("name", ["blue", 'bl "au é'])
async def test_the_anchors_chassis_claims_the_gateway_and_deletion_leaves_nothing(
    cluster: Cluster, name: str
) -> None:
    nb, sb = OvnNorthbound(cluster.nb.remote, owner="house"), OvnSouthbound(cluster.sb.remote)
    assert await wait(sb, "vm1", "b")
    # northd tells NB that the port is up a moment after the chassis has bound it.
    cluster.nbctl("--timeout=15", "wait-until", "Logical_Switch_Port", "vm1", "up=true")
    before = cluster.nb.contents()
    ports_before = {row["logical_port"] for row in cluster.sb.rows("Port_Binding")}
    spec = await resolved(nb, sb, name)
    named = topology.gateway_names(spec)
    placed = placement.choose(spec, await nb.view(), await sb.view())
    assert placed.reasons["x"].startswith("not eligible: does not map")
    made = await nb.apply(change(spec, members=placed.members, bump_nb_cfg=True))
    assert await wait(sb, named.chassis_redirect_port, "b")
    assert await sb.wait_until(
        lambda view: all(chassis.nb_cfg >= made.nb_cfg for chassis in view.chassis), 15
    )
    view = await sb.view()
    binding = view.binding(named.chassis_redirect_port)
    assert binding is not None
    assert binding.type == "chassisredirect"
    assert binding.datapath == view.datapaths[named.router]
    zones = cluster.chassis["b"].zones()
    stems = (named.router, binding.datapath)
    assert str(spec.snat_zone) in {zones.get(f"{stem}_snat") for stem in stems}
    (announced,) = (
        row["nat_addresses"]
        for row in cluster.sb.rows("Port_Binding")
        if row["logical_port"] == f"{named.external_port}-lsp"
    )
    resident = f'is_chassis_resident("{named.chassis_redirect_port}")'
    assert announced == f"{spec.external_mac} 172.16.1.100 {resident}"
    await nb.apply(deletion(spec.name, made.epoch))
    cluster.nbctl("--wait=sb", "sync")
    assert cluster.nb.contents() == before
    assert {row["logical_port"] for row in cluster.sb.rows("Port_Binding")} == ports_before
    await nb.close()
    await sb.close()


async def test_a_port_edit_binds_the_vm_on_both_chassis_and_then_on_the_target_only(cluster: Cluster) -> None:
    nb, sb = OvnNorthbound(cluster.nb.remote, owner="house"), OvnSouthbound(cluster.sb.remote)
    assert await wait(sb, "vm1", "b")
    spec = await resolved(nb, sb, "blue")
    lone = placement.numbered(("b",))
    both = PortEdit("vm1", {"requested-chassis": "b,a", "activation-strategy": "rarp"})
    cluster.chassis["a"].plug("vm1")
    made = await nb.apply(change(spec, members=lone, ports=(both,), bump_nb_cfg=True))

    def standing_by(view: SbView) -> bool:
        binding = view.binding("vm1")
        return binding is not None and binding.additional_chassis == ("a",)

    assert await sb.wait_until(standing_by, 15)
    pinned = PortEdit("vm1", {"requested-chassis": "a", "activation-strategy": None})
    await nb.apply(change(spec, made.epoch, placement.numbered(("a",)), ports=(pinned,), bump_nb_cfg=True))
    assert await wait(sb, "vm1", "a")
    assert await wait(sb, topology.gateway_names(spec).chassis_redirect_port, "a")
    assert [row["chassis_name"] for row in cluster.nb.rows("Gateway_Chassis")] == ["a"]
    await nb.close()
    await sb.close()


async def test_writing_the_record_alone_gives_northd_nothing_to_do(cluster: Cluster) -> None:
    nb, sb = OvnNorthbound(cluster.nb.remote, owner="house"), OvnSouthbound(cluster.sb.remote)
    assert await wait(sb, "vm1", "b")
    spec = await resolved(nb, sb, "blue")
    members = placement.numbered(("b",))
    made = await nb.apply(change(spec, members=members))
    assert await wait(sb, topology.gateway_names(spec).chassis_redirect_port, "b")
    cluster.nbctl("--wait=hv", "sync")
    await settled(cluster)
    before = cluster.sb.contents()
    runs = cluster.northd_recomputes()
    wanted = change(spec, made.epoch, members, rows=None)
    done = await nb.apply(replace(wanted, document=str(wanted.document) + " "))
    assert done.wrote
    await anyio.sleep(0.3)
    assert cluster.sb.contents() == before
    assert cluster.northd_recomputes() == runs
    cluster.nbctl("set", "logical_router", topology.gateway_names(spec).router, "external_ids:theirs=1")
    await anyio.sleep(0.3)
    assert cluster.northd_recomputes() > runs, "the counter counts"
    await nb.close()
    await sb.close()
