from __future__ import annotations

import pytest

from ovnmig.core.document import DocumentError
from ovnmig.core.views import NbView, RecordRow
from ovnmig.engine import store
from tests.engine.world import World, a_udn


async def test_documents_are_found_with_their_epoch_and_damaged_ones_are_named() -> None:
    world = World()
    async with world.controller() as one:
        await one.api.create_udn(a_udn())
    good = world.nb.view().records[0]
    nb = NbView(records=(good, RecordRow("u2", "broken", 3, "{}")))
    found = store.find(nb, "blue")
    assert found is not None
    assert (found.document.spec.name, found.epoch) == ("blue", good.epoch)
    assert store.find(nb, "nobody") is None
    with pytest.raises(DocumentError):
        store.find(nb, "broken")
    assert [stored.document.spec.name for stored in store.readable(nb)] == ["blue"]
    assert len(store.damaged(nb)) == 1
    assert store.damaged(nb)[0].startswith("UDN 'broken'")
