"""``ovnmig udn``: create, show, list, set, delete."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ovnmig.cli.client import Document, segment
from ovnmig.cli.exits import CliError, Exit
from ovnmig.cli.options import DEFAULT_URL, JsonOption, UdnArgument, UrlOption, api
from ovnmig.cli.output import pairs, print_json, say, table

app = typer.Typer(no_args_is_help=True)

Many = list[str] | None
Subnets = Annotated[Many, typer.Option("--subnet", help="Inner subnet (repeat for dual stack).")]
Vips = Annotated[
    Many, typer.Option("--vip", help="Egress address with its prefix, 172.16.1.100/24 (repeat).")
]
Physical = Annotated[str | None, typer.Option("--physical-network", help="As in ovn-bridge-mappings.")]
Nexthops = Annotated[Many, typer.Option("--nexthop", help="Default gateway outside (repeat).")]
Switch = Annotated[
    str | None, typer.Option("--switch", help="Logical switch to attach to, or name of the new one.")
]
CreateSwitch = Annotated[
    bool, typer.Option("--create-switch", help="Create the switch instead of attaching.")
]
Gateways = Annotated[
    Many, typer.Option("--gateway-address", help="Inner router address [default: first hosts].")
]
Vlan = Annotated[int | None, typer.Option("--vlan", help="VLAN on the physical network.")]
Ports = Annotated[str | None, typer.Option("--port-range", help="Source ports of the VIP, like 20000-30000.")]
Zone = Annotated[str | None, typer.Option("--snat-zone", help="A zone number, 'auto' or 'off'.")]
PolicyOption = Annotated[str | None, typer.Option("--policy", help="follow or pinned.")]
Anchor = Annotated[str | None, typer.Option("--anchor", help="Port of the VM that the gateway follows.")]
Standby = Annotated[int | None, typer.Option("--standby-count", help="Standby chassis of the HA set.")]
Chassis = Annotated[Many, typer.Option("--chassis", help="The only candidates, in order (repeat).")]
ReplicationOption = Annotated[
    str | None,
    typer.Option("--replication", help="none, or continuous: standbys hold the sessions all the time."),
]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="JSON file with these fields; '-' reads stdin. Options win."),
]

_ZONE_DIGITS = 5
_CLEARABLE = ("vlan", "port_range", "anchor", "gateway_addresses", "snat_zone", "nexthops", "chassis")
_REQUEST = (
    "subnets", "vips", "physical_network", "nexthops", "switch", "gateway_addresses", "vlan", "port_range",
    "policy", "anchor", "standby_count", "chassis", "replication",
)  # fmt: skip


def _zone(text: str | None) -> int | str | None:
    if text is None or text == "off":
        return text
    if not (text.isascii() and text.isdecimal() and len(text) <= _ZONE_DIGITS):
        raise CliError(f"--snat-zone {text!r}: write a zone number, 'auto' or 'off'", code=Exit.USAGE)
    return int(text)


def _read(path: Path | None) -> Document:
    if path is None:
        return {}
    try:
        data = json.loads(sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}", code=Exit.USAGE) from None
    except (ValueError, RecursionError) as error:
        raise CliError(f"{path} is not JSON: {error}", code=Exit.USAGE) from None
    if not isinstance(data, dict):
        raise CliError(f"{path} must hold one JSON object", code=Exit.USAGE)
    return data


def _given(snat_zone: str | None, **fields: Any) -> Document:
    # Not "in": a VLAN 0 equals False, and would be left out without a word.
    found = {
        name: value for name, value in fields.items() if not (value is None or value is False or value == [])
    }
    if snat_zone is not None:
        found["snat_zone"] = None if snat_zone == "auto" else _zone(snat_zone)
    return found


def _copy(standby: Document) -> str:
    words = f"{standby['chassis']}: {standby['state']}, {standby['pending']} pending"
    if standby["synced_at"] is not None:
        ago_s = time.time() - datetime.fromisoformat(standby["synced_at"]).timestamp()
        words += f", confirmed {max(0.0, ago_s):.1f} s ago"
    counts = ((name, standby[name]) for name in ("refused", "lost", "put_back"))
    words += "".join(f", {number} {name.replace('_', ' ')}" for name, number in counts if number)
    return words + (f" ({standby['reason']})" if standby["reason"] else "")


def _show(udn: Document) -> None:
    pairs(
        [
            ("name", udn["name"]),
            ("switch", f"{udn['switch']}{' (created by ovnmig)' if udn['switch_owned'] else ''}"),
            ("subnets", udn["subnets"]),
            ("gateway addresses", udn["gateway_addresses"]),
            ("vips", udn["vips"]),
            ("next hops", udn["nexthops"]),
            ("physical network", udn["physical_network"] + (f", VLAN {udn['vlan']}" if udn["vlan"] else "")),
            ("port range", udn["port_range"] or "all"),
            ("snat zone", udn["snat_zone"] or "off (differs per chassis)"),
            ("policy", udn["policy"] + (f", anchor {udn['anchor']}" if udn["anchor"] else "")),
            ("router", udn["router"]),
            ("owner", udn["owner"] or "not claimed yet"),
            ("HA set", [f"{m['chassis']} (priority {m['priority']})" for m in udn["members"]]),
            ("protected", udn["protected"] or "no: a lone gateway dies with its node"),
            ("replication", [udn["replication"], *map(_copy, udn["standbys"])]),
            ("placement", [f"{chassis}: {why}" for chassis, why in udn["placement"].items()]),
            ("drift", udn["drift"] or "none"),
            ("migration", udn["migration"]),
        ]
    )


@app.command("create")
def create(
    name: UdnArgument,
    subnet: Subnets = None,
    vip: Vips = None,
    physical_network: Physical = None,
    nexthop: Nexthops = None,
    switch: Switch = None,
    create_switch: CreateSwitch = False,
    gateway_address: Gateways = None,
    vlan: Vlan = None,
    port_range: Ports = None,
    snat_zone: Zone = None,
    policy: PolicyOption = None,
    anchor: Anchor = None,
    standby_count: Standby = None,
    chassis: Chassis = None,
    replication: ReplicationOption = None,
    file: File = None,
    json_out: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Create the gateway of a UDN. Repeating the same command changes nothing."""
    given = _given(
        snat_zone, subnets=subnet, vips=vip, physical_network=physical_network, nexthops=nexthop,
        switch=switch, create_switch=create_switch, gateway_addresses=gateway_address, vlan=vlan,
        port_range=port_range, policy=policy, anchor=anchor, standby_count=standby_count, chassis=chassis,
        replication=replication,
    )  # fmt: skip
    body = _read(file) | given | {"name": name}
    with api(url) as service:
        answer = service.call("POST", "/v1/udns", body=body)
    if json_out:
        print_json(answer)
        return
    say(f"created {name!r}" if answer["changed"] else f"{name!r} was there already, exactly so")
    _show(answer)


@app.command("set")
def change(
    name: UdnArgument,
    subnet: Subnets = None,
    vip: Vips = None,
    physical_network: Physical = None,
    nexthop: Nexthops = None,
    gateway_address: Gateways = None,
    vlan: Vlan = None,
    port_range: Ports = None,
    snat_zone: Zone = None,
    policy: PolicyOption = None,
    anchor: Anchor = None,
    standby_count: Standby = None,
    chassis: Chassis = None,
    replication: ReplicationOption = None,
    clear: Annotated[Many, typer.Option("--clear", help=f"Field to reset: {', '.join(_CLEARABLE)}.")] = None,
    file: File = None,
    json_out: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Change some fields of a UDN; the others stay. One transaction."""
    wrong = [c for c in clear or [] if c not in _CLEARABLE]
    if wrong:
        raise CliError(f"--clear {wrong[0]}: it can reset {', '.join(_CLEARABLE)}", code=Exit.USAGE)
    given = _given(
        snat_zone, subnets=subnet, vips=vip, physical_network=physical_network, nexthops=nexthop,
        gateway_addresses=gateway_address, vlan=vlan, port_range=port_range, policy=policy, anchor=anchor,
        standby_count=standby_count, chassis=chassis, replication=replication,
    )  # fmt: skip
    given = _read(file) | given
    if not given and not clear:
        raise CliError(
            "nothing to change: name at least one option, see 'ovnmig udn set --help'", code=Exit.USAGE
        )
    path = f"/v1/udns/{segment(name)}"
    with api(url) as service:
        now = service.get(path)
        body = {field: now[field] for field in _REQUEST}
        body["create_switch"] = now["switch_owned"]
        body["snat_zone"] = "off" if now["snat_zone"] is None else now["snat_zone"]
        body = {k: v for k, v in (body | given).items() if k not in (clear or [])}
        answer = service.call("PUT", path, body=body)
    if json_out:
        print_json(answer)
        return
    say(f"changed {name!r}" if answer["changed"] else f"{name!r} is exactly so already")
    _show(answer)


@app.command("show")
def show(name: UdnArgument, json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """One UDN: what is wanted, who owns the gateway, what differs."""
    with api(url) as service:
        answer = service.get(f"/v1/udns/{segment(name)}")
    if json_out:
        print_json(answer)
    else:
        _show(answer)


def udn_rows(udns: list[Document]) -> None:
    """The table of UDNs."""
    table(
        ["NAME", "SUBNETS", "VIPS", "POLICY", "OWNER", "PROTECTED", "DRIFT", "MIGRATION"],
        (
            (u["name"], u["subnets"], u["vips"], u["policy"], u["owner"], u["protected"],
             len(u["drift"]) or "none", u["migration"])
            for u in udns
        ),
        empty="no UDNs; create one with 'ovnmig udn create'",
    )  # fmt: skip


@app.command("list")
def list_udns(json_out: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """All UDNs."""
    with api(url) as service:
        answer = service.get("/v1/udns")
    if json_out:
        print_json(answer)
    else:
        udn_rows(answer["udns"])


@app.command("delete")
def delete(
    name: UdnArgument,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="It is fine if there is none.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Delete every row of the UDN that is ours. Its sessions end."""
    with api(url) as service:
        answer = service.call("DELETE", f"/v1/udns/{segment(name)}", accept=(404,) if if_exists else ())
    say(f"there is no UDN {name!r}" if answer else f"deleted {name!r}")
