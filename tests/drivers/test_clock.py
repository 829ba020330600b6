from __future__ import annotations

import time

from ovnmig.drivers.clock import SystemClock


async def test_now_is_unix_time_and_sleep_takes_what_is_already_over() -> None:
    clock = SystemClock()
    before = time.time()
    await clock.sleep(-5)
    await clock.sleep(0.01)
    assert before < clock.now() <= time.time()
