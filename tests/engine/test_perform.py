from __future__ import annotations

import pytest

from ovnmig.core import document
from ovnmig.core.effects import (
    Answer,
    Arm,
    Copy,
    Effect,
    EndTransfers,
    Finish,
    ObserveOwner,
    ObserveTarget,
    Overlap,
)
from ovnmig.core.events import (
    Armed,
    CopyObserved,
    Event,
    Finished,
    OverlapObserved,
    OwnerObserved,
    TargetObserved,
    TransfersEnded,
)
from ovnmig.core.legs import Leg
from ovnmig.core.migration import MigrationRecord
from ovnmig.core.transfer import TransferState
from ovnmig.engine.perform import Job, Performer
from tests.core.machine import a_record
from tests.engine.world import World, a_udn


class Stage:
    """A world with one UDN whose gateway sits on A, and a performer for one record of it."""

    def __init__(self, record: MigrationRecord) -> None:
        self.world = World()
        self.record = record

    async def set_up(self) -> Stage:
        async with self.world.controller() as one:
            await one.api.create_udn(a_udn())
        return self

    async def perform(self, effect: Effect) -> Event:
        stored = self.world.nb.udns["blue"]
        spec = document.decode(stored.document).spec
        performer = Performer(self.world.sb, self.world.agents)
        return await performer.perform(Job(effect, self.record, spec, stored.epoch))


async def stage(**changes: object) -> Stage:
    return await Stage(a_record(**changes)).set_up()


async def test_the_target_is_seen_through_sb_and_its_agent() -> None:
    one = await stage()
    event = await one.perform(ObserveTarget())
    assert isinstance(event, TargetObserved)
    assert event.readiness is not None
    assert set(event.readiness.zones) == {"snat:ovnmig-blue", "dnat:ovnmig-blue"}
    assert event.nb_cfg == one.world.nb.nb_cfg


@pytest.mark.parametrize("what", ["southbound", "chassis", "agent"])
async def test_a_target_that_cannot_be_seen_is_a_problem_in_words(what: str) -> None:
    one = await stage()
    if what == "southbound":
        one.world.sb.down = "connection refused"
    elif what == "chassis":
        del one.world.sb.chassis["B"]
    else:
        one.world.agents.nodes["B"].down = "connection refused"
    event = await one.perform(ObserveTarget())
    assert isinstance(event, TargetObserved)
    assert event.readiness is None
    assert event.problem


async def test_a_leg_is_started_at_its_source_with_the_epoch_and_the_peers_address() -> None:
    one = await stage()
    event = await one.perform(Copy(start=(Leg.GATEWAY,)))
    assert isinstance(event, CopyObserved)
    order = one.world.agents.nodes["A"].transfers["m1"].order
    assert (order.peer.chassis, order.peer.host, order.peer.port) == ("B", "192.0.2.2", 8789)
    assert order.epoch == one.world.nb.udns["blue"].epoch
    again = await one.perform(Copy(start=(Leg.GATEWAY,)))
    assert isinstance(again, CopyObserved)
    assert one.world.agents.log == ["A: send snat:ovnmig-blue dnat:ovnmig-blue to B as m1"]


async def test_the_vms_zone_is_looked_for_on_the_target_until_its_leg_runs() -> None:
    one = await stage()
    before = await one.perform(Copy())
    one.world.plug("vm1", "B")
    plugged = await one.perform(Copy())
    started = await one.perform(Copy(start=(Leg.PORT,)))
    assert isinstance(before, CopyObserved)
    assert isinstance(plugged, CopyObserved)
    assert isinstance(started, CopyObserved)
    assert [before.port_zone_there, plugged.port_zone_there, started.port_zone_there] == [False, True, False]
    assert started.statuses[Leg.PORT] is not None


async def test_an_unreachable_port_source_is_a_failed_leg_and_an_unreachable_gateway_a_problem() -> None:
    one = await stage(port_source="C")
    one.world.agents.nodes["C"].down = "gone"
    port = await one.perform(Copy(start=(Leg.GATEWAY,)))
    assert isinstance(port, CopyObserved)
    assert port.problem == ""
    status = port.statuses[Leg.PORT]
    assert status is not None
    assert status.state is TransferState.FAILED
    one.world.agents.nodes["A"].refuses = "older epoch"
    gateway = await one.perform(Copy())
    assert isinstance(gateway, CopyObserved)
    assert gateway.problem == "older epoch"
    one.world.agents.nodes["A"].refuses = ""
    one.world.sb.down = "away"
    away = await one.perform(Copy(start=(Leg.GATEWAY,)))
    assert isinstance(away, CopyObserved)
    assert (away.problem, away.away) == ("", "away")


async def test_a_peer_without_an_address_cannot_be_sent_to() -> None:
    one = await stage()
    del one.world.sb.chassis["B"]
    event = await one.perform(Copy(start=(Leg.GATEWAY,)))
    assert isinstance(event, CopyObserved)
    assert "no encap address" in event.problem


async def test_arming_fails_in_the_agents_words() -> None:
    one = await stage()
    assert await one.perform(Arm()) == Armed()
    one.world.agents.nodes["B"].arm_fails = "no patch port"
    assert await one.perform(Arm()) == Armed("no patch port")
    one.world.agents.nodes["B"].down = "gone"
    assert await one.perform(Arm()) == Armed("agent of B: gone")


async def test_the_final_delta_of_the_gateway_comes_last() -> None:
    one = await stage()
    one.world.plug("vm1", "B")
    await one.perform(Copy(start=(Leg.GATEWAY, Leg.PORT)))
    event = await one.perform(Finish())
    assert isinstance(event, Finished)
    assert {leg: status and status.state for leg, status in event.statuses.items()} == {
        Leg.PORT: TransferState.FINAL,
        Leg.GATEWAY: TransferState.FINAL,
    }
    assert one.world.agents.log[-2:] == ["A: final delta of m1-port", "A: final delta of m1"]


async def test_a_final_delta_that_fails_is_a_problem_for_the_gateway_and_a_status_for_the_port() -> None:
    one = await stage(port_source="C")
    one.world.plug("vm1", "B")
    await one.perform(Copy(start=(Leg.GATEWAY, Leg.PORT)))
    one.world.agents.nodes["C"].forgets_next = True
    event = await one.perform(Finish())
    assert isinstance(event, Finished)
    port = event.statuses[Leg.PORT]
    assert port is not None
    assert port.state is TransferState.FAILED
    one.world.agents.nodes["A"].down = "gone"
    failed = await one.perform(Finish())
    assert isinstance(failed, Finished)
    assert failed.problem == "agent of A: gone"


async def test_without_a_started_port_leg_there_is_nothing_to_finish_of_it() -> None:
    one = await stage()
    await one.perform(Copy(start=(Leg.GATEWAY,)))
    event = await one.perform(Finish())
    assert isinstance(event, Finished)
    assert event.statuses[Leg.PORT] is None


async def test_the_owner_is_whoever_sb_shows_and_the_last_seen_when_sb_is_away() -> None:
    one = await stage(owner="C")
    assert await one.perform(ObserveOwner()) == OwnerObserved("A", vm_on_target=False)
    one.world.arrive("vm1", "B")
    assert await one.perform(ObserveOwner()) == OwnerObserved("A", vm_on_target=True)
    one.world.sb.down = "away"
    assert await one.perform(ObserveOwner()) == OwnerObserved("C", vm_on_target=False)


async def test_the_overlap_starts_the_way_back_again_when_it_is_lost() -> None:
    one = await stage(switched_at=1.0)
    await one.perform(Copy(start=(Leg.GATEWAY,)))
    for _ in range(2):
        event = await one.perform(Overlap())
        assert isinstance(event, OverlapObserved)
        assert event.problem == ""
        assert event.statuses[Leg.BACK] is not None
        one.world.agents.nodes["B"].restart()
    assert sum("as m1-back" in line for line in one.world.agents.log) == 2


async def test_the_overlap_names_every_leg_that_does_not_run() -> None:
    one = await stage(switched_at=1.0)
    one.world.agents.nodes["A"].down = "gone"
    one.world.sb.down = "away"
    event = await one.perform(Overlap())
    assert isinstance(event, OverlapObserved)
    assert event.owner == ""
    assert "the Southbound database: away" in event.problem
    assert "gateway leg: agent of A: gone" in event.problem


async def test_ending_tells_every_agent_once_and_names_those_it_could_not_tell() -> None:
    one = await stage(switched_at=1.0)
    one.world.agents.nodes["A"].down = "gone"
    event = await one.perform(EndTransfers())
    assert isinstance(event, TransfersEnded)
    assert (event.owner, event.vm_on_target) == ("A", False)
    assert event.problem == ("gateway leg not ended: agent of A: gone; port leg not ended: agent of A: gone")
    assert one.world.agents.nodes["B"].ended == ["m1-back"]
    one.world.sb.down = "away"
    one.world.agents.nodes["B"].down = "gone"
    blind = await one.perform(EndTransfers())
    assert isinstance(blind, TransfersEnded)
    assert (blind.owner, blind.vm_on_target) == ("", None)
    assert "announcement not disarmed" in blind.problem


async def test_before_the_switch_no_way_back_is_ended() -> None:
    one = await stage()
    await one.perform(EndTransfers())
    assert one.world.agents.nodes["B"].ended == []
    assert one.world.agents.nodes["A"].ended == ["m1", "m1-port"]


async def test_a_gateway_that_stays_has_nothing_to_disarm_and_a_move_by_hand_no_vm() -> None:
    one = await stage(moves_gateway=False)
    one.world.agents.nodes["B"].down = "gone"
    event = await one.perform(EndTransfers())
    assert isinstance(event, TransfersEnded)
    assert event.problem == ""
    hand = await stage(port=None, port_source="")
    assert await hand.perform(ObserveOwner()) == OwnerObserved("A", vm_on_target=False)


async def test_what_is_no_order_is_refused() -> None:
    one = await stage()
    with pytest.raises(ValueError, match="no order"):
        await one.perform(Answer(True, "x"))


async def test_a_dead_target_is_noticed_while_its_source_still_tries_to_reach_it() -> None:
    one = await stage(port=None, port_source="")
    one.world.agents.nodes["A"].copy_state = TransferState.CONNECTING
    one.world.agents.nodes["A"].notices_dead_peer = False
    await one.perform(Copy(start=(Leg.GATEWAY,)))
    one.world.agents.nodes["B"].down = "no route to host"
    event = await one.perform(Copy())
    assert isinstance(event, CopyObserved)
    assert event.problem == "no route to host"
