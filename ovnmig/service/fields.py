"""Field types of request bodies: each turns text into the core's types, or says in words what to write
instead."""

from __future__ import annotations

import unicodedata
from ipaddress import ip_address, ip_interface, ip_network
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from ovnmig.core.shape import MAX_STANDBYS
from ovnmig.core.udn import Address, Interface, Network

NAME_MAX = 200
ADDRESS_MAX = 100
"""Characters of an address, a network or a port range, blanks included."""


class RequestModel(BaseModel):
    """A request body: unknown fields are refused, so that a misspelt option never silently does nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AnswerModel(BaseModel):
    """An answer: every field is always present, so that programs need no defaults."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


def check_text(value: str) -> str:
    """Names go to logs, tables and OVSDB: no control characters, not only blanks. Raises ValueError."""
    if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in value):
        raise ValueError("control characters and line breaks are not allowed in a name")
    if not value.strip():
        raise ValueError("a name of blanks only cannot be told apart; write at least one other character")
    return value


def check_udn_name(value: str) -> str:
    """A UDN's name is one segment of a URL. Raises ValueError with what to change."""
    check_text(value)
    if "/" in value:
        raise ValueError("a UDN name cannot contain '/': it is one segment of the URL")
    if value in (".", ".."):
        raise ValueError("'.' and '..' cannot name a UDN: HTTP clients remove them from URLs")
    return value


def _text(value: object, example: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"write it as text, like {example!r}")
    if len(value) > ADDRESS_MAX:
        raise ValueError(f"{len(value)} characters are too many; write it like {example!r}")
    if "%" in value:
        raise ValueError(f"{value!r} has an interface scope (%...); leave it out")
    return value.strip()


def parse_network(value: object) -> Network:
    """``10.1.0.0/24``; host bits are refused with the network that was probably meant. Raises ValueError."""
    text = _text(value, "10.1.0.0/24")
    if "/" not in text:
        raise ValueError(f"{text!r} has no prefix length; write it like '10.1.0.0/24'")
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        meant = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 or IPv6 network; write it like '10.1.0.0/24'") from None
    raise ValueError(f"{text!r} has host bits set; write {str(meant)!r}")


def parse_interface(value: object) -> Interface:
    """``172.16.1.100/24``: an address with the prefix of its subnet. Raises ValueError."""
    text = _text(value, "172.16.1.100/24")
    if "/" not in text:
        raise ValueError(f"{text!r} has no prefix length; add the one of its subnet, like '172.16.1.100/24'")
    try:
        return ip_interface(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an IPv4 or IPv6 address with a prefix, like '172.16.1.100/24'"
        ) from None


def parse_address(value: object) -> Address:
    """``172.16.1.1``. Raises ValueError."""
    text = _text(value, "172.16.1.1")
    try:
        return ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 or IPv6 address; write it without a prefix") from None


def parse_port_range(value: object) -> tuple[int, int]:
    """``20000-30000``, both ends included. Raises ValueError."""
    text = _text(value, "20000-30000")
    first, dash, last = text.partition("-")
    if not dash or not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise ValueError(f"{text!r} is not a port range; write it like '20000-30000'")
    low, high = int(first), int(last)
    if not 1 <= low <= high <= 65535:
        raise ValueError(f"{text!r}: ports go from 1 to 65535, the lower one first")
    return low, high


def parse_snat_zone(value: object) -> int | str:
    """A zone number, or ``off``. Raises ValueError."""
    if value == "off":
        return "off"
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise ValueError("write a zone number from 1 to 65535, or 'off'; leave it out to have one chosen")
    return value


def write_port_range(value: tuple[int, int] | None) -> str | None:
    """The inverse of :func:`parse_port_range`."""
    return None if value is None else f"{value[0]}-{value[1]}"


def _schema(description: str, example: str, **more: Any) -> WithJsonSchema:
    limits = {"minLength": 1, "maxLength": ADDRESS_MAX}
    return WithJsonSchema(
        {"type": "string", "description": description, "examples": [example], **limits, **more}
    )


_AS_TEXT = PlainSerializer(str, return_type=str)

NetworkField = Annotated[
    Network,
    PlainValidator(parse_network),
    _AS_TEXT,
    _schema("IPv4 or IPv6 network, no host bits set", "10.1.0.0/24"),
]
InterfaceField = Annotated[
    Interface,
    PlainValidator(parse_interface),
    _AS_TEXT,
    _schema("IPv4 or IPv6 address with the prefix length of its subnet", "172.16.1.100/24"),
]
AddressField = Annotated[
    Address,
    PlainValidator(parse_address),
    _AS_TEXT,
    _schema("IPv4 or IPv6 address", "172.16.1.1"),
]
PortRangeField = Annotated[
    tuple[int, int],
    PlainValidator(parse_port_range),
    PlainSerializer(write_port_range, return_type=str),
    _schema("TCP/UDP source ports of the VIP, both ends included", "20000-30000", pattern="^[0-9]+-[0-9]+$"),
]
SnatZoneField = Annotated[
    int | str,
    PlainValidator(parse_snat_zone),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 65535},
                {"type": "string", "const": "off"},
            ],
            "description": "conntrack zone for the router's SNAT; 'off': unset, zones differ per chassis",
        }
    ),
]
UdnNameField = Annotated[
    str, Field(min_length=1, max_length=NAME_MAX, strict=True), AfterValidator(check_udn_name)
]
NameField = Annotated[str, Field(min_length=1, max_length=NAME_MAX, strict=True), AfterValidator(check_text)]
StandbyCountField = Annotated[int, Field(strict=True, ge=0, le=MAX_STANDBYS)]
SwitchField = Annotated[bool, Field(strict=True)]
OverlapField = Annotated[
    float,
    Field(strict=True, ge=0, le=3600, description="seconds both nodes keep the sessions after the switch"),
]
