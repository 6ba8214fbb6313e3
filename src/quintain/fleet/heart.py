"""What keeps a worker's leases while it works, and stops what it has lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from quintain.fleet._card import Lease
from quintain.fleet.base import Job, Queue
from quintain.types import HouseError

_log = logging.getLogger(__name__)

#: Heartbeats in the time of one lease: two may fail before it is lost.
BEATS = 3


class Heart:
    """Extends every lease that was added, all in one call, three times in a lease's time. Of a lease that another has
    by then, or that ran out while the queue could not be reached, `lost` is told, once."""

    def __init__(self, queue: Queue, *, clock: Callable[[], float] = time.time) -> None:
        self._queue = queue
        self._clock = clock
        self._held: dict[str, tuple[Lease[Job], Callable[[], object]]] = {}

    def add(self, lease: Lease[Job], lost: Callable[[], object]) -> None:
        self._held[lease.token] = (lease, lost)

    def drop(self, lease: Lease[Job]) -> Lease[Job]:
        """Keep it no longer; the lease as it is now."""
        return self._held.pop(lease.token, (lease, None))[0]

    async def beat(self) -> None:
        """For ever: run it in a task of its own."""
        while True:
            await asyncio.sleep(self._queue.terms.lease_seconds / BEATS)
            await self.beat_once()

    async def beat_once(self) -> None:
        asked = [lease for lease, _ in self._held.values()]
        if not asked:
            return
        try:
            async with asyncio.timeout(self._queue.terms.lease_seconds / BEATS):  # one that hangs costs no other
                kept = {lease.token: lease for lease in await self._queue.extend(asked)}
        except (HouseError, TimeoutError) as error:
            _log.warning("no heartbeat: %s", str(error) or "the queue does not answer")
            now = self._clock()
            kept = {lease.token: lease for lease in asked if lease.until_seconds > now}
        for lease in asked:
            lost = self._held.get(lease.token)
            if lost is None:
                continue  # settled meanwhile
            if lease.token in kept:
                self._held[lease.token] = (kept[lease.token], lost[1])
            else:
                del self._held[lease.token]
                _log.warning("%s: attempt %d is lost", lease.id, lease.attempt)
                lost[1]()
