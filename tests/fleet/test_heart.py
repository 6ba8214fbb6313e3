"""What keeps leases while their work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quintain.fleet import Heart, Job, Lease, MemoryQueue, Terms

LEASE_SECONDS = 0.6


class Slow(MemoryQueue):
    """Does not answer the first heartbeat, as a server that is gone does not."""

    beats = 0

    async def extend(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        self.beats += 1
        if self.beats == 1:
            await asyncio.sleep(60.0)
        return await super().extend(leases)


def test_a_heartbeat_that_hangs_costs_no_other_and_no_lease() -> None:
    async def story() -> None:
        queue = Slow(Terms(lease_seconds=LEASE_SECONDS))
        await queue.put([Job(id="a", kind="code")])
        [lease] = await queue.lease("w")
        heart, lost = Heart(queue), asyncio.Event()
        heart.add(lease, lost.set)
        await asyncio.wait_for(heart.beat_once(), 10.0)
        assert not lost.is_set()
        await heart.beat_once()
        assert queue.beats == 2
        assert heart.drop(lease).until_seconds > lease.until_seconds, "it was kept by the next one"

    asyncio.run(story())
