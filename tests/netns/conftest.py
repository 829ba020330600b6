"""Two namespaces per test, as the two nodes of a transfer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ovnmig.conntrack import NetlinkSocket
from tests.netns.spaces import inside, namespaces


@dataclass(frozen=True)
class Pair:
    """Source and target: namespace names and the engine's sockets in them."""

    source: str
    target: str
    read: NetlinkSocket
    write: NetlinkSocket


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A source and a target namespace."""
    with (
        namespaces("a", "b") as (source, target),
        inside(source, NetlinkSocket) as read,
        inside(target, NetlinkSocket) as write,
    ):
        yield Pair(source, target, read, write)
