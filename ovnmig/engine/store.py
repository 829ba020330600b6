"""The UDNs' record rows, read and written: documents with the epoch that guards them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ovnmig.core import document
from ovnmig.core.document import DocumentError, UdnDocument
from ovnmig.core.views import NbView

# Every read and every look of the supervisor decodes all rows; a document never changes under its text.
_decode = lru_cache(maxsize=4096)(document.decode)


@dataclass(frozen=True, slots=True)
class Stored:
    """A document and the epoch every transaction on it must verify."""

    document: UdnDocument
    epoch: int


def find(nb: NbView, udn: str) -> Stored | None:
    """The UDN's document. Raises DocumentError when the row cannot be read."""
    row = nb.record(udn)
    return None if row is None else Stored(_decode(row.document), row.epoch)


def readable(nb: NbView) -> Iterator[Stored]:
    """Every UDN whose row can be read; a damaged one must not hide the others."""
    for row in nb.records:
        try:
            yield Stored(_decode(row.document), row.epoch)
        except DocumentError:
            continue


def damaged(nb: NbView) -> tuple[str, ...]:
    """The rows that cannot be read, in words."""
    problems = []
    for row in nb.records:
        try:
            _decode(row.document)
        except DocumentError as error:
            problems.append(f"UDN {row.udn!r}: {error}")
    return tuple(problems)
