"""BFD intervals on a real ovsdb-server."""

from __future__ import annotations

from ovnmig.core.bfd import VALUES, Profile
from tests.nb.world import house


async def test_a_profile_comes_and_goes_in_one_transaction_each() -> None:
    async with house() as (server, [driver]):
        before = server.contents()
        assert await driver.bfd() == {}
        count = server.transactions()
        assert await driver.set_bfd(VALUES[Profile.FAST])
        assert server.transactions() == count + 1
        assert await driver.bfd() == VALUES[Profile.FAST]
        assert not await driver.set_bfd(VALUES[Profile.FAST])
        assert server.transactions() == count + 1
        assert await driver.set_bfd(VALUES[Profile.DEFAULT])
        assert server.contents() == before
