"""One sandbox per suite, booted when the first test asks for it, ended with the session whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.cluster import Cluster
from tests.sandbox.world import World, furnished

TIMEOUT_S = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here boots or uses a guest: minutes at worst, never hours."""
    for item in items:
        if "tests/sandbox/" in str(item.path):
            item.add_marker(pytest.mark.sandbox)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))
    items.sort(key=needs_bookworm)


def needs_bookworm(item: pytest.Item) -> bool:
    """The other OVN's tests come last, so that one guest at a time is up."""
    return "[bookworm" in item.name or "bookworm_world" in getattr(item, "fixturenames", ())


class Clusters:
    """The sandbox of this session, one suite at a time."""

    def __init__(self) -> None:
        self._up: dict[str, Cluster] = {}

    def get(self, suite: str) -> Cluster:
        """The sandbox of the suite; another one is ended, so that it takes no time from this one's tests."""
        if suite not in self._up:
            self.down()
            self._up[suite] = Cluster.boot(suite)
        return self._up[suite]

    def down(self) -> None:
        while self._up:
            self._up.popitem()[1].down()


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    made = Clusters()
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="session")
def trixie(clusters: Clusters) -> Cluster:
    """OVN 25.03."""
    return clusters.get("trixie")


@pytest.fixture(scope="session", params=["trixie", "bookworm"])
def each(request: pytest.FixtureRequest, clusters: Clusters) -> Cluster:
    """OVN 25.03, then OVN 23.03."""
    return clusters.get(request.param)


@pytest.fixture
def world(trixie: Cluster) -> Iterator[World]:
    """A switch of its own with two VMs on the first chassis, no gateway yet; OVN 25.03."""
    with furnished(trixie) as made:
        yield made


@pytest.fixture
def each_world(each: Cluster) -> Iterator[World]:
    """The same on either OVN."""
    with furnished(each) as made:
        yield made


@pytest.fixture
def other_world(trixie: Cluster) -> Iterator[World]:
    """A second world beside `world`."""
    with furnished(trixie) as made:
        yield made


@pytest.fixture
def bookworm_world(clusters: Clusters) -> Iterator[World]:
    """The same on OVN 23.03 only."""
    with furnished(clusters.get("bookworm")) as made:
        yield made
