"""Pieces are made ahead of their use, in order, no further than the depth; the iterator is always ended."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import aclosing

import pytest

from ovnmig.agent.ahead import ahead
from ovnmig.agent.worker import Worker


class Counted:
    """Numbers, and how many of them were made."""

    def __init__(self, end: int, fault: Exception | None = None) -> None:
        self.made = 0
        self.closed = False
        self._end = end
        self._fault = fault

    def items(self) -> Generator[int]:
        """0, 1, 2 ..."""
        try:
            while self.made < self._end:
                self.made += 1
                yield self.made - 1
            if self._fault:
                raise self._fault
        finally:
            self.closed = True


async def test_everything_comes_in_order() -> None:
    source = Counted(100)
    async with aclosing(ahead(Worker("test"), source.items(), 3)) as found:
        assert [one async for one in found] == list(range(100))
    assert source.closed


async def test_no_more_is_made_than_there_is_room_for() -> None:
    source = Counted(100)
    async with aclosing(ahead(Worker("test"), source.items(), 3)) as found:
        assert await anext(found) == 0
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert source.made <= 5
    assert source.closed
    assert source.made <= 6


async def collect(source: Counted, seen: list[int], limit: int) -> None:
    """Take items; fail at the one after ``limit``."""
    async with aclosing(ahead(Worker("test"), source.items(), 2)) as found:
        async for one in found:
            if len(seen) == limit:
                raise KeyError
            seen.append(one)


async def test_what_goes_wrong_in_the_thread_comes_after_what_was_made() -> None:
    source, seen = Counted(2, ValueError("of the kernel")), list[int]()
    with pytest.raises(ValueError, match="of the kernel"):
        await collect(source, seen, 100)
    assert seen == [0, 1]
    assert source.closed


async def test_a_reader_that_fails_ends_the_iterator() -> None:
    source, seen = Counted(100), list[int]()
    with pytest.raises(KeyError):
        await collect(source, seen, 3)
    assert source.closed
    assert source.made < 10
