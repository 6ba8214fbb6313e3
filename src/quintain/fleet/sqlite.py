"""The queue that needs no server: a file of SQLite that the processes of one host share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Self

from quintain.fleet._card import Full, Lease, Place, Terms
from quintain.fleet._table import ERRORS, Table
from quintain.fleet._thread import Thread
from quintain.fleet.base import Job, Kept, Stats

_LOOK_SECONDS = (0.005, 0.1)  # between two looks while nothing is there: from, doubling, to


class SqliteQueue:
    """A `Queue` in the file `path`, made with `SqliteQueue.open`; close it with `aclose`.

    Survives the death of any process at any time. A power cut may lose the last changes, and bring back jobs that were
    acknowledged then, unless `power_safe` (each change waits for the disk: some 100 times slower). The file must lie on
    a disk of this host: WAL does not work over a network. The clock is the wall clock: one that jumps forward ends
    leases early, which costs work and, by the fence, nothing else; after one that was put back leases end as if they
    were given then, and delays last that much longer.
    """

    def __init__(self, table: Table, thread: Thread) -> None:
        self._table = table
        self._thread = thread

    @classmethod
    async def open(
        cls, path: Path, terms: Terms | None = None, *, clock: Callable[[], float] = time.time,
        power_safe: bool = False,
    ) -> Self:
        """Opens or makes the file. Terms that are given become the queue's, for whoever opens it from then on; without
        any it keeps those that it has. Raises HouseError(STORE_ERROR) for a file that is no queue."""
        thread = Thread(str(path), ERRORS)
        try:
            table = await thread.run(lambda: Table(path, terms, clock=clock, power_safe=power_safe))
        except BaseException:
            await thread.aclose(lambda: None)
            raise
        return cls(table, thread)

    @property
    def terms(self) -> Terms:
        return self._table.terms

    async def put(
        self, jobs: Sequence[Job], *, delay_seconds: float = 0.0, wait_seconds: float = 0.0,
    ) -> tuple[str, ...]:
        deadline = time.monotonic() + wait_seconds
        added: list[str] = []
        rest = tuple(jobs)
        pause = _LOOK_SECONDS[0]
        while rest:
            now_rest = rest
            new, dealt = await self._thread.run(lambda: self._table.put(now_rest, delay_seconds))  # noqa: B023
            added += new
            rest = rest[dealt:]
            if not rest:
                break
            if time.monotonic() >= deadline:
                raise Full(f"expected room for {rest[0].id!r}, found a bound of {self.terms.bound} "
                           f"for kind {rest[0].kind!r}")
            pause = await _wait(pause, deadline)
        return tuple(added)

    async def lease(
        self, worker: str, *, most: int = 1, kinds: Collection[str] | None = None, wait_seconds: float = 0.0,
    ) -> tuple[Lease[Job], ...]:
        deadline = time.monotonic() + wait_seconds
        pause = _LOOK_SECONDS[0]
        while True:
            found = await self._thread.run(
                lambda: self._table.lease(worker, most, kinds) if self._table.news() else [],
                undo=lambda lost: self._table.nack(lost, 0.0, "nobody waited for it any more", counts=False),
            )
            if found or time.monotonic() >= deadline:
                return tuple(found)
            pause = await _wait(pause, deadline)

    async def extend(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        return tuple(await self._thread.run(lambda: self._table.extend(leases)))

    async def ack(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        return tuple(await self._thread.run(lambda: self._table.ack(leases)))

    async def nack(
        self, leases: Sequence[Lease[Job]], *, delay_seconds: float = 0.0, reason: str = "", counts: bool = True,
    ) -> tuple[Lease[Job], ...]:
        return tuple(await self._thread.run(
            lambda: self._table.nack(leases, delay_seconds, reason, counts=counts)))

    async def dead(self, leases: Sequence[Lease[Job]], *, reason: str) -> tuple[Lease[Job], ...]:
        return tuple(await self._thread.run(lambda: self._table.dead(leases, reason)))

    async def revive(self, ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(await self._thread.run(lambda: self._table.revive(ids)))

    async def peek(
        self, *, place: Place = Place.READY, kind: str | None = None, most: int = 20,
    ) -> tuple[Kept, ...]:
        return tuple(await self._thread.run(lambda: self._table.peek(place, kind, most)))

    async def stats(self) -> Stats:
        return await self._thread.run(self._table.stats)

    async def drain(self, *, kind: str | None = None, most: int = 1000) -> tuple[Job, ...]:
        return tuple(await self._thread.run(lambda: self._table.drain(kind, most)))

    async def stop(self, kind: str) -> None:
        await self._thread.run(lambda: self._table.stop(kind, stopped=True))

    async def resume(self, kind: str) -> None:
        await self._thread.run(lambda: self._table.stop(kind, stopped=False))

    async def aclose(self) -> None:
        await self._thread.aclose(self._table.close)


async def _wait(pause: float, deadline: float) -> float:
    """Wait before the next look, and say how long to wait before the one after it."""
    await asyncio.sleep(max(0.0, min(pause, deadline - time.monotonic())))
    return min(2 * pause, _LOOK_SECONDS[1])
