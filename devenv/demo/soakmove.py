"""One move of the soak, with what is broken in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from devenv.demo import rest, soakfaults
from devenv.demo.crash import in_step
from devenv.demo.moves import BROKEN
from devenv.demo.soakplan import LATE_S, Step
from devenv.demo.stage import ANCHOR, SWITCH, Stage, addresses
from devenv.guest import vm

PHASE_TIMEOUT_S = 90.0
OWNER_TIMEOUT_S = 60.0
OVERLAP_S = 1.0
ROLLED_BACK_MAX = 3
LOOKS_S = 3.0
"""By then the service has looked at agents that came back."""
LAG_S = 1.0
"""A session younger than this may not be on the standby yet, in a guest with one processor for all nodes."""

Say = Callable[[str], None]


class Mover:
    """Plays steps one by one. Raises RestError or ClusterError where one does not go as it must."""

    def __init__(self, stage: Stage, say: Say) -> None:
        self.stage = stage
        self.say = say
        self.windows: list[tuple[float, float]] = []
        """From order to end of each migration that was carried through (Unix seconds)."""
        self.log: list[dict[str, Any]] = []
        """Each step with the times (Unix seconds) of its parts."""
        self.drift_seen = 0
        self.rolled_back: list[str] = []
        """Why migrations that nobody called off were rolled back before the VM moved."""
        self.flips_s: list[float] = []
        self.unprotected: list[tuple[float, float]] = []
        """When foreign flips outran replication (Unix seconds): what is born then is on one chassis only."""

    def wait_for_bfd(self) -> None:
        """Until a migration would not have to wait for BFD between the gateway's chassis."""
        asked = {"udn": SWITCH, "target": self.stage.chassis["b"], "gateway": True, "dry_run": True}
        deadline = time.monotonic() + OWNER_TIMEOUT_S
        while not (answer := rest.call("POST", "/v1/migrations", asked))["possible"] or any(
            "wait for BFD" in line for line in answer["plan"]
        ):
            if time.monotonic() > deadline:
                raise rest.RestError(f"a migration is not possible at once: {answer}")
            time.sleep(0.2)

    def play(self, step: Step) -> None:
        """The step, whole: at its end the target owns the gateway and nothing is in flight."""
        source, target = self.stage.chassis[step.source], self.stage.chassis[step.target]
        self.log.append({**asdict(step), "began": time.time()})
        try:
            if step.fault == "foreign-flips":
                self.flips(source)
            if step.fault in (
                "cancelled-in-preparing",
                "cancelled-in-copying",
                "cancelled-in-ready",
                "vm-never-arrives",
            ):
                self.cancelled(step.fault, source, target)
            self.log[-1]["ordered"] = time.time()
            self.migrate(step.fault, source, target, step.teardown_s)
            self.log[-1]["ended"] = time.time()
        except rest.RestError as error:
            raise rest.RestError(
                f"move {step.number} ({source} to {target}, {step.fault}): {error}"
            ) from error

    def play_control(self, number: int) -> None:
        """A move as `play` makes it, but without its entries."""
        letters = "abc"
        source, target = (self.stage.chassis[letters[n % 3]] for n in (number, number + 1))
        self.migrate("none", source, target, 0.0, transfer="none")

    def order(self, target: str, transfer: str = "full") -> str:
        """Orders the anchor's migration with its gateway; returns its path."""
        body = {
            "udn": SWITCH,
            "port": ANCHOR,
            "target": target,
            "binding": "ovnmig",
            "trigger": "auto",
            "transfer": transfer,
            "overlap_s": OVERLAP_S,
            "gateway": True,
        }
        return f"/v1/migrations/{rest.call('POST', '/v1/migrations', body)['id']}"

    def reach(self, path: str, *phases: str) -> Any:
        """Waits for one of the phases. Raises RestError with the reason when it breaks instead."""

        def check(answer: Any) -> bool:
            if answer["phase"] in BROKEN and answer["phase"] not in phases:
                raise rest.RestError(f"{path} {answer['phase']}: {answer['reason']}")
            return answer["phase"] in phases

        return wait_over(f"{path} in {'/'.join(phases)}", path, check, PHASE_TIMEOUT_S)

    def cancelled(self, fault: str, source: str, target: str) -> None:
        """A migration to ``target`` that is called off in the phase that the fault names."""
        if fault == "cancelled-in-preparing":
            path = self.order(target)
            rest.call("DELETE", path)
        elif fault == "cancelled-in-copying":
            with soakfaults.no_entries_to(target):
                path = self.order(target)
                self.reach(path, "copying")
                rest.call("DELETE", path)
        else:
            path = self.order(target)
            if fault == "vm-never-arrives":
                vm.plug(self.stage.plan, ANCHOR, target)
            if self.prepared(path):
                time.sleep(0.5)
                rest.call("DELETE", path)
            if fault == "vm-never-arrives":
                vm.unplug(ANCHOR, target)
        wait_over(f"{path} rolled back", path, lambda m: bool(m["phase"] == "rolled-back"), PHASE_TIMEOUT_S)
        self.settled(source)

    def migrate(
        self, fault: str, source: str, target: str, teardown_s: float, transfer: str = "full"
    ) -> None:
        """A migration that is carried through, whatever breaks on the way. One that is rolled back before the
        VM moved has changed nothing: it is noted and begun anew."""
        plan, began = self.stage.plan, time.time()
        path = self.order(target, transfer)
        vm.plug(plan, ANCHOR, target)
        if not self.prepared(path):
            vm.unplug(ANCHOR, target)
            self.settled(source)
            return self.migrate(fault, source, target, teardown_s, transfer)
        if fault == "vm-arrives-late":
            time.sleep(LATE_S)
        elif fault == "target-ovn-controller-restarts":
            soakfaults.restart_ovn_controller(self.stage, target)
        elif fault == "owner-ovn-controller-restarts":
            soakfaults.restart_ovn_controller(self.stage, source)
        elif fault == "agents-killed" and not self.outlived(path, source, target):
            # An agent that is away for three looks ends a migration.
            vm.unplug(ANCHOR, target)
            self.settled(source)
            return self.migrate("none", source, target, teardown_s)
        elif fault == "service-killed":
            soakfaults.kill_service(plan.central)
        vm.wait_bound(plan, ANCHOR, target)
        self.log[-1]["moved"] = time.time()
        vm.move(plan, ANCHOR, source, target, binding="managed")
        self.reach(path, "switching", "converging", "completed")
        if fault == "cancelled-in-switching":
            self.refused(path)
        self.reach(path, "converging", "completed")
        switched = time.monotonic()
        self.log[-1]["switched"] = time.time()
        if fault == "new-owner-ovn-controller-restarts":
            soakfaults.restart_ovn_controller(self.stage, target)
        elif fault == "cancelled-in-converging":
            self.refused(path)
        time.sleep(max(0.0, switched + teardown_s - time.monotonic()))
        soakfaults.tear_down(source, addresses(ANCHOR))
        self.reach(path, "completed")
        self.windows.append((began, time.time()))
        self.settled(target)

    def outlived(self, path: str, source: str, target: str) -> bool:
        """Kill both agents and wait for new ones; whether the migration is ready again, not rolled back."""
        for chassis in (source, target):
            soakfaults.kill_service(self.stage.plan.node(chassis))
        wait_over("both agents", "/v1/nodes", agents_up, OWNER_TIMEOUT_S)
        time.sleep(LOOKS_S)
        # A VM that arrived before would find its gateway staying behind: nobody could carry the entries.
        return self.prepared(path)

    def prepared(self, path: str) -> bool:
        """Waits until the migration is ready, or was rolled back, which is noted and may happen thrice."""
        ends = ("ready", "rolled-back")
        seen = wait_over("the migration", path, lambda m: m["phase"] in ends, PHASE_TIMEOUT_S)
        if seen["phase"] == "ready":
            return True
        self.rolled_back.append(str(seen["reason"]))
        if len(self.rolled_back) > ROLLED_BACK_MAX:
            raise rest.RestError(f"too many migrations were rolled back: {self.rolled_back}")
        return False

    def refused(self, path: str) -> None:
        """A cancel that comes after the switch is refused, with words."""
        try:
            rest.call("DELETE", path)
        except rest.RestError as error:
            if ": 409: " in str(error):
                return
            raise
        raise rest.RestError(f"{path} was cancelled after its switch")

    def settled(self, owner: str) -> None:
        """The chassis owns the gateway, nothing is in flight and no row differs from what it must be."""

        def holds(udn: Any) -> bool:
            return udn["owner"] == owner and not udn["migration"] and not udn["drift"]

        wait_over(f"gateway on {owner}", rest.udn_path(SWITCH), holds, OWNER_TIMEOUT_S)

    def flips(self, owner: str) -> None:
        """A foreign writer throws the gateway about: the UDN says so and has one owner; a PUT mends the rows.

        What protects the sessions of a gateway that anything may move is continuous replication.
        """
        path = rest.udn_path(SWITCH)
        self.change(replication="continuous")
        udn = rest.wait("the copy in step", path, in_step, OWNER_TIMEOUT_S)
        other = next(m["chassis"] for m in udn["members"] if m["chassis"] != owner)
        began = time.time()
        took_s, last = soakfaults.flip(self.stage, owner, other)
        self.flips_s.append(round(took_s, 3))

        def noticed(udn: Any) -> bool:
            # Replication puts an owner first that it did not choose, and so mends the rows by itself.
            return bool(udn["drift"]) or (last != owner and first(udn) == last)

        rest.wait("drift reported, or the owner put first", path, noticed, OWNER_TIMEOUT_S)
        rest.wait(f"gateway on {last}", path, lambda u: bool(u["owner"] == last), OWNER_TIMEOUT_S)
        self.drift_seen += 1
        time.sleep(2)
        rest.wait("the copy in step with the new owner", path, in_step, OWNER_TIMEOUT_S)
        self.unprotected.append((began - LAG_S, time.time()))
        self.change(replication="continuous")
        self.settled(last)
        if last != owner:
            answer = rest.call("PUT", f"{path}/gateway", {"target": owner, "overlap_s": 0})
            self.reach(f"/v1/migrations/{answer['id']}", "completed")
            self.settled(owner)
        self.change(replication="none")
        self.settled(owner)

    def change(self, replication: str) -> None:
        """The operator's whole wish for the UDN, sent again: it mends drift, too."""
        rest.call("PUT", rest.udn_path(SWITCH), self.stage.gateway(follow=True, replication=replication))


def agents_up(answer: Any) -> bool:
    """The agent of every chassis answers."""
    return all(node["agent_up"] for node in answer["nodes"])


def first(udn: Any) -> str:
    """The chassis of the highest priority in the UDN's record."""
    return str(max(udn["members"], key=lambda member: member["priority"])["chassis"])


def wait_over(what: str, path: str, holds: Callable[[Any], bool], timeout_s: float) -> Any:
    """As `rest.wait`, over a service that is being started again."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return rest.wait(what, path, holds, max(1.0, deadline - time.monotonic()))
        except rest.RestError as error:
            away = "no answer from ovnmig" in str(error) or ": 503: " in str(error)
            if not away or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
