"""What a request's fields may hold, in words: the validation library's messages say what is wrong, these what
to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_NUMBER = "write a number, without quotes"
_WHOLE = "write a whole number, without quotes"
_BOOLEAN = "write true or false"


def _items(context: Mapping[str, Any], key: str) -> str:
    number = context[key]
    return "one entry" if number == 1 else f"{number} entries"


# By the error's type; each gets the error's context.
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "string_type": lambda _: "write it as text, in quotes",
    "string_unicode": lambda _: "write whole characters: half of a surrogate pair is none",
    "string_too_short": lambda _: "it must not be empty",
    "string_too_long": lambda c: f"write {c['max_length']} characters at most",
    "string_pattern_mismatch": lambda c: f"it must match {c['pattern']}",
    "list_type": lambda _: "write a list, like ['...']",
    "too_short": lambda c: f"give at least {_items(c, 'min_length')}",
    "too_long": lambda c: f"give {_items(c, 'max_length')} at most",
    "bool_type": lambda _: _BOOLEAN,
    "bool_parsing": lambda _: _BOOLEAN,
    "int_type": lambda _: _WHOLE,
    "int_from_float": lambda _: _WHOLE,
    "int_parsing": lambda _: "write a whole number",
    "int_parsing_size": lambda _: "write a number with fewer digits",
    "float_type": lambda _: _NUMBER,
    "finite_number": lambda _: "write a finite number",
    "greater_than_equal": lambda c: f"write {c['ge']:.16g} or more",
    "less_than_equal": lambda c: f"write {c['le']:.16g} or less",
    "enum": lambda c: f"write {c['expected']}",
}


def what_to_write(error: Mapping[str, Any]) -> str:
    """The sentence for a validation error; the library's own where there is no better one."""
    words = _WORDS.get(str(error["type"]))
    if words is None:
        return str(error["msg"]).removeprefix("Value error, ")
    return words(error.get("ctx", {}))
