"""Dataclasses to JSON and back, driven by their annotations: exact, tolerant of unknown fields, and of
missing ones with defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

# Interfaces are a subclass of addresses, so they come first.
_PARSERS: tuple[tuple[frozenset[type], Callable[[str], object]], ...] = (
    (frozenset({IPv4Interface, IPv6Interface}), ip_interface),
    (frozenset({IPv4Network, IPv6Network}), ip_network),
    (frozenset({IPv4Address, IPv6Address}), ip_address),
)
_ADDRESS_TYPES = tuple(kind for kinds, _ in _PARSERS for kind in kinds)


_T = TypeVar("_T")


class CodecError(ValueError):
    """The data does not fit the type; the text names the place."""


def to_plain(value: object) -> object:
    """JSON-ready data (dict, list, str, int, float, bool, None) for a value of a type that :func:`from_plain`
    reads."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, _ADDRESS_TYPES):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    raise CodecError(f"cannot store a {type(value).__name__}")


def from_plain(kind: type[_T], data: object) -> _T:
    """A ``kind`` from :func:`to_plain`'s data. Raises CodecError when it does not fit."""
    return cast("_T", _decode(kind, data, kind.__name__))


def _decode(kind: Any, data: object, where: str) -> object:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(get_args(kind), data, where)
    if origin is tuple:
        return _decode_tuple(get_args(kind), data, where)
    if origin is not None and issubclass(origin, Mapping):
        return _decode_mapping(get_args(kind)[1], data, where)
    if is_dataclass(kind):
        return _decode_dataclass(kind, data, where)
    return _decode_scalar(kind, data, where)


def _decode_union(choices: tuple[Any, ...], data: object, where: str) -> object:
    rest = tuple(choice for choice in choices if choice is not NoneType)
    if data is None and len(rest) < len(choices):
        return None
    for kinds, parse in _PARSERS:
        if set(rest) == kinds and isinstance(data, str):
            return _attempt(parse, data, where)
    if len(rest) == 1:
        return _decode(rest[0], data, where)
    for choice in rest:
        if choice in (bool, int, float, str) and type(data) is choice:
            return data
    raise CodecError(f"{where}: {data!r} fits none of its types")


def _decode_tuple(args: tuple[Any, ...], data: object, where: str) -> tuple[object, ...]:
    if not isinstance(data, list):
        raise CodecError(f"{where}: a list is expected, not {data!r}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(args) != len(data):
        raise CodecError(f"{where}: {len(args)} items are expected, not {len(data)}")
    return tuple(
        _decode(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, data, strict=True))
    )


def _decode_mapping(value_kind: Any, data: object, where: str) -> dict[str, object]:
    if not isinstance(data, dict):
        raise CodecError(f"{where}: an object is expected, not {data!r}")
    return {key: _decode(value_kind, item, f"{where}.{key}") for key, item in data.items()}


def _decode_dataclass(kind: Any, data: object, where: str) -> object:
    if not isinstance(data, dict):
        raise CodecError(f"{where}: an object is expected, not {data!r}")
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for f in fields(kind):
        if f.name in data:
            values[f.name] = _decode(hints[f.name], data[f.name], f"{where}.{f.name}")
        elif f.default is MISSING and f.default_factory is MISSING:
            raise CodecError(f"{where}.{f.name} is missing")
    return kind(**values)


def _decode_scalar(kind: Any, data: object, where: str) -> object:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _attempt(kind, data, where)
    for kinds, _ in _PARSERS:
        if kind in kinds and isinstance(data, str):
            return _attempt(kind, data, where)
    if kind is float and type(data) in (int, float):
        return float(cast("float", data))
    if kind in (bool, int, str) and type(data) is kind:
        return data
    raise CodecError(f"{where}: {data!r} is not a {getattr(kind, '__name__', kind)}")


def _attempt(build: Callable[[Any], object], data: object, where: str) -> object:
    try:
        return build(data)
    except ValueError as error:
        raise CodecError(f"{where}: {error}") from None
