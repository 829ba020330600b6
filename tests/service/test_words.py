from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from ovnmig.core.migration import Trigger
from ovnmig.service.words import what_to_write


def words_for(kind: Any, value: object) -> str:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind).validate_python(value)
    return what_to_write(dict(raised.value.errors()[0]))


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (str, 7, "write it as text"),
        (Annotated[str, Field(max_length=3)], "\ud800", "write whole characters"),
        (Annotated[str, Field(min_length=1)], "", "must not be empty"),
        (Annotated[str, Field(max_length=3)], "four", "write 3 characters at most"),
        (Annotated[str, Field(pattern="^a$")], "b", "must match ^a$"),
        (list[str], "a", "write a list"),
        (Annotated[list[str], Field(min_length=1)], [], "give at least one entry"),
        (Annotated[list[str], Field(max_length=2)], ["a"] * 3, "give 2 entries at most"),
        (Annotated[bool, Field(strict=True)], "yes", "write true or false"),
        (bool, "perhaps", "write true or false"),
        (Annotated[int, Field(strict=True)], "1", "write a whole number"),
        (int, 1.5, "write a whole number"),
        (int, "x", "write a whole number"),
        (int, "9" * 5000, "fewer digits"),
        (Annotated[float, Field(strict=True)], "1", "write a number"),
        (Annotated[float, Field(allow_inf_nan=False)], float("nan"), "write a finite number"),
        (Annotated[int, Field(ge=1)], 0, "write 1 or more"),
        (Annotated[int, Field(le=2**53)], 2**60, "write 9007199254740992 or less"),
        (Trigger, "later", "write 'auto' or 'manual'"),
    ],
)
def test_every_limit_is_told_as_what_to_write(kind: Any, value: object, words: str) -> None:
    assert words in words_for(kind, value)


def test_words_of_our_own_stay_and_an_unknown_error_keeps_the_librarys() -> None:
    assert what_to_write({"type": "value_error", "msg": "Value error, add the prefix"}) == "add the prefix"
    assert what_to_write({"type": "new_kind", "msg": "Something new"}) == "Something new"
