"""The stage: a logical switch, three VMs, and a gateway per run: ovnmig's, or by hand one as of today."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from devenv.demo import rest
from devenv.guest import outside, ovn, qemu, shell, vm, vmrecord
from devenv.guest.plan import Plan

SWITCH = "demo"
VMS = ("vm1", "vm2", "vm3")
ANCHOR = "vm1"
SUBNETS = ("10.99.0.0/24", "fd00:99::/64")
GATEWAYS = ("10.99.0.1", "fd00:99::1")
VIPS = ("172.16.1.100/24", "fd00:172:16:1::100/64")
NEXTHOPS = (str(outside.GATEWAY_V4), str(outside.GATEWAY_V6))
SERVERS = {"4": str(outside.SERVER_V4), "6": str(outside.SERVER_V6)}
PLAIN_ROUTER = "plain"


def addresses(name: str) -> tuple[str, str]:
    """The VM's addresses with prefix, one per family."""
    number = 10 + int(name.removeprefix("vm"))
    return f"10.99.0.{number}/24", f"fd00:99::{number:x}/64"


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster the demo plays on, with its three chassis by the letters the runs use."""

    plan: Plan
    chassis: dict[str, str]

    @classmethod
    def of_the_running_cluster(cls) -> Stage:
        """Take the first three chassis. Raises ClusterError when there are fewer."""
        plan = ovn.current_plan()
        names = [node.name for node in plan.chassis]
        if len(names) < 3:
            raise shell.ClusterError(f"the demo needs three chassis, this cluster has {len(names)}")
        return cls(plan, dict(zip("abc", names, strict=False)))

    def build_vms(
        self, letter: str = "a", kind: str = "namespace", places: Mapping[str, str] | None = None
    ) -> None:
        """The switch and three VMs of that kind on that chassis, or each on the one of ``places``."""
        ovn.nbctl(self.plan, "ls-add", SWITCH)
        for name in VMS:
            vm.add(
                self.plan,
                name,
                addresses=addresses(name),
                gateways=GATEWAYS,
                chassis=tuple(self.chassis.values()),
                on=self.chassis[(places or {}).get(name, letter)],
                switch=SWITCH,
                kind=kind,
            )
        ovn.sync(self.plan)

    def remove(self) -> None:
        """All of it, whatever of it there is."""
        with suppress(rest.RestError):
            rest.call("DELETE", rest.udn_path(SWITCH))
        ovn.nbctl(self.plan, "--if-exists", "lr-del", PLAIN_ROUTER)
        ovn.nbctl(self.plan, "--if-exists", "ls-del", f"{PLAIN_ROUTER}-outside")
        for name in VMS:
            if name in vmrecord.names():
                vm.delete(name)
        ovn.nbctl(self.plan, "--if-exists", "ls-del", SWITCH)

    def gateway(self, *, follow: bool, replication: str = "none") -> dict[str, Any]:
        """What the demo wants of its UDN, as REST takes it."""
        return {
            "name": SWITCH,
            "switch": SWITCH,
            "subnets": SUBNETS,
            "vips": VIPS,
            "nexthops": NEXTHOPS,
            "physical_network": "public",
            "policy": "follow" if follow else "pinned",
            "anchor": ANCHOR,
            "chassis": list(self.chassis.values()),
            "replication": replication,
        }

    def create_gateway(self, *, follow: bool, replication: str = "none") -> None:
        """ovnmig's gateway for the switch, owned by chassis a."""
        rest.call("POST", "/v1/udns", self.gateway(follow=follow, replication=replication))
        here = self.chassis["a"]
        rest.wait(f"gateway on {here}", rest.udn_path(SWITCH), lambda udn: udn["owner"] == here, 30)

    def delete_gateway(self) -> None:
        """ovnmig's gateway, with all its rows."""
        rest.call("DELETE", rest.udn_path(SWITCH))
        ovn.sync(self.plan)

    def node_addresses(self, letter: str) -> tuple[str, str]:
        """The addresses with prefix that the plain router has on that chassis, as a node has its own."""
        number = outside.NODE_ADDRESS_BASE + 1 + list(self.chassis).index(letter)
        return f"172.16.1.{number}/24", f"fd00:172:16:1::{number:x}/64"

    def create_plain_router(self) -> None:
        """A router with a single-candidate gateway port whose address, and SNAT address, are chassis a's."""
        router, port, inner = PLAIN_ROUTER, f"{PLAIN_ROUTER}-out", f"{PLAIN_ROUTER}-in"
        beyond = f"{PLAIN_ROUTER}-outside"
        own = self.node_addresses("a")
        words = f"lr-add {router}".split()
        words += ["--", "lrp-add", router, inner, "02:99:00:00:00:01"]
        words += [f"{g}/{s.split('/')[1]}" for g, s in zip(GATEWAYS, SUBNETS, strict=True)]
        words += ["--", "lrp-add", router, port, "02:99:00:00:00:02", *own]
        words += f"-- ls-add {beyond} -- lsp-add {beyond} {beyond}-net".split()
        words += f"-- lsp-set-type {beyond}-net localnet -- lsp-set-addresses {beyond}-net unknown".split()
        words += f"-- lsp-set-options {beyond}-net network_name=public".split()
        for switch, peer in ((SWITCH, inner), (beyond, port)):
            words += f"-- lsp-add {switch} {peer}-lsp -- lsp-set-type {peer}-lsp router".split()
            words += f"-- lsp-set-addresses {peer}-lsp router".split()
            words += f"-- lsp-set-options {peer}-lsp router-port={peer} nat-addresses=router".split()
        for subnet, address, nexthop in zip(SUBNETS, own, NEXTHOPS, strict=True):
            everywhere = "::/0" if ":" in subnet else "0.0.0.0/0"
            words += f"-- lr-route-add {router} {everywhere} {nexthop} {port}".split()
            words += f"-- lr-nat-add {router} snat {address.split('/')[0]} {subnet}".split()
        words += f"-- lrp-set-gateway-chassis {port} {self.chassis['a']} 10".split()
        ovn.nbctl(self.plan, *words)
        ovn.sync(self.plan)

    def move_plain_router(self, letter: str) -> None:
        """Today's move: one transaction gives the router the other chassis and that chassis's addresses."""
        port = f"{PLAIN_ROUTER}-out"
        own = self.node_addresses(letter)
        text = ",".join(f'"{a}"' for a in own)
        words = ["set", "Logical_Router_Port", port, f"networks=[{text}]"]
        for address in own:
            new = address.split("/")[0]
            subnet = next(s for s in SUBNETS if (":" in s) == (":" in new))
            row = self._find("NAT", f'logical_ip="{subnet}"')
            words += ["--", "set", "NAT", row, f'external_ip="{new}"']
        gateway = self._find("Gateway_Chassis", f'name="{port}-{self.chassis["a"]}"')
        words += ["--", "set", "Gateway_Chassis", gateway, f"chassis_name={self.chassis[letter]}"]
        ovn.nbctl(self.plan, *words)

    def _find(self, table: str, condition: str) -> str:
        return ovn.nbctl(self.plan, "--bare", "--columns=_uuid", "find", table, condition).strip()

    def delete_plain_router(self) -> None:
        """The plain router and its switch."""
        words = f"lr-del {PLAIN_ROUTER} -- ls-del {PLAIN_ROUTER}-outside -- lsp-del {PLAIN_ROUTER}-in-lsp"
        ovn.nbctl(self.plan, *words.split())
        ovn.sync(self.plan)

    def wait_reachable(self, timeout_s: float = 40.0) -> None:
        """Until every VM reaches the server in both families; a real one boots first, on its own time."""
        for machine in map(vmrecord.load, VMS):
            if machine.kind == "qemu":
                qemu.wait_booted(machine)
        waiting = [(name, family) for name in VMS for family in SERVERS]
        deadline = time.monotonic() + timeout_s
        while waiting:
            name, family = waiting[0]
            if vm.reaches(name, SERVERS[family]):
                waiting.pop(0)
            elif time.monotonic() > deadline:
                raise shell.ClusterError(f"{name} does not reach the outside server over IPv{family}")
