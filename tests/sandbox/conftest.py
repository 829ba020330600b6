"""One sandbox per suite, booted when the first test asks for it, ended with the session whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

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
    items.sort(key=lambda item: not needs_bookworm(item.name))


def needs_bookworm(name: str) -> bool:
    """The other OVN's tests come first and together: its guest is booted once, and of two processes
    that share the work one takes this long piece while the other one is busy with all the small ones."""
    return "[bookworm" in name


class Sharing(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """How pytest processes share the tests: a file's belong together, and all of the other OVN's."""

    def _split_scope(self, nodeid: str) -> str:
        return "bookworm" if needs_bookworm(nodeid) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing:
    return Sharing(config, log)


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


@pytest.fixture(params=["bookworm"])
def bookworm_world(request: pytest.FixtureRequest, clusters: Clusters) -> Iterator[World]:
    """The same on OVN 23.03 only."""
    with furnished(clusters.get(request.param)) as made:
        yield made
