"""Messages to chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ovnmig.conntrack.transform import Chunk


def chunk_of(messages: Sequence[bytes]) -> Chunk:
    """The messages side by side."""
    sizes = np.array([len(raw) // 4 for raw in messages], dtype=np.intp)
    return Chunk(np.frombuffer(b"".join(messages), dtype=np.uint32), np.cumsum(sizes) - sizes)
