"""A queue that lives and dies with its process: for one process, for tests, and under a virtual clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from quintain.fleet._card import Card, Count, Full, Lease, Place, Terms
from quintain.fleet._shelf import Shelf
from quintain.fleet.base import Job, Kept, Line, Stats

_BREATH_SECONDS = 0.05  # between two looks, where only time can bring news


class MemoryQueue:
    """The `Shelf` with a clock, as a `Queue`. Nothing outlives the process."""

    def __init__(self, terms: Terms | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.shelf: Shelf[Job] = Shelf(terms)
        self._clock = clock
        self._changed = asyncio.Event()

    @property
    def terms(self) -> Terms:
        return self.shelf.terms

    async def put(
        self, jobs: Sequence[Job], *, delay_seconds: float = 0.0, wait_seconds: float = 0.0,
    ) -> tuple[str, ...]:
        deadline = time.monotonic() + wait_seconds
        added = []
        for job in jobs:
            while True:
                try:
                    new = self.shelf.put(job.id, job, at=self._clock(), kind=job.kind, priority=job.priority,
                                         delay_seconds=delay_seconds)
                except Full:
                    if not await self._news(deadline):
                        raise
                else:
                    break
            if new:
                added.append(job.id)
                self._tell()
        return tuple(added)

    async def lease(
        self, worker: str, *, most: int = 1, kinds: Collection[str] | None = None, wait_seconds: float = 0.0,
    ) -> tuple[Lease[Job], ...]:
        deadline = time.monotonic() + wait_seconds
        await asyncio.sleep(0)  # who takes again and again must not hold up those who put
        while True:
            found = self.shelf.lease(worker, at=self._clock(), seconds=self.terms.lease_seconds, most=most, kinds=kinds)
            if found or not await self._news(deadline):
                return tuple(self._marked(lease) for lease in found)

    async def extend(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        now, seconds = self._clock(), self.terms.lease_seconds
        return tuple(
            msgspec.structs.replace(lease, until_seconds=now + seconds) for lease in leases
            if self._is_of_now(lease) and self.shelf.extend(lease.id, lease.attempt, at=now, seconds=seconds)
        )

    async def ack(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        return self._each(leases, lambda lease, now: self.shelf.ack(lease.id, lease.attempt, at=now))

    async def nack(
        self, leases: Sequence[Lease[Job]], *, delay_seconds: float = 0.0, reason: str = "", counts: bool = True,
    ) -> tuple[Lease[Job], ...]:
        return self._each(leases, lambda lease, now: self.shelf.nack(
            lease.id, lease.attempt, at=now, delay_seconds=delay_seconds, reason=reason, counts=counts))

    async def dead(self, leases: Sequence[Lease[Job]], *, reason: str) -> tuple[Lease[Job], ...]:
        return self._each(leases, lambda lease, now: self.shelf.dead(lease.id, lease.attempt, at=now, reason=reason))

    async def revive(self, ids: Sequence[str]) -> tuple[str, ...]:
        found = tuple(id for id in ids if self.shelf.revive(id, at=self._clock()))
        self._tell()
        return found

    async def peek(
        self, *, place: Place = Place.READY, kind: str | None = None, most: int = 20,
    ) -> tuple[Kept, ...]:
        now = self._clock()
        cards = self.shelf.peek(at=now, place=place, most=most if kind is None else len(self.shelf))
        return tuple(_kept(card) for card in cards if kind in (None, card.kind))[:most]

    async def stats(self) -> Stats:
        now = self._clock()
        self.shelf.tick(now)
        counts, lines = self.shelf.counts(), {}
        for kind in sorted(self.shelf.kinds()):
            oldest = self.shelf.oldest(kind)
            lines[kind] = Line(
                count=counts.get(kind, Count()), stopped=self.shelf.is_stopped(kind),
                oldest_seconds=None if oldest is None else max(0.0, now - oldest),
            )
        return Stats(kinds=lines, terms=self.terms)

    async def drain(self, *, kind: str | None = None, most: int = 1000) -> tuple[Job, ...]:
        self.shelf.tick(self._clock())
        found = tuple(card.body for card in self.shelf.drain(kind=kind, most=most))
        self._tell()
        return found

    async def stop(self, kind: str) -> None:
        self.shelf.stop(kind)

    async def resume(self, kind: str) -> None:
        self.shelf.resume(kind)
        self._tell()

    async def aclose(self) -> None:
        """Holds nothing that must be let go."""

    def _marked(self, lease: Lease[Job]) -> Lease[Job]:
        card = self.shelf.get(lease.id)
        assert card is not None
        return msgspec.structs.replace(lease, token=str(card.number))

    def _is_of_now(self, lease: Lease[Job]) -> bool:
        """Whether it is of the job that is kept, and not of an earlier one of the same id."""
        card = self.shelf.get(lease.id)
        return card is not None and str(card.number) == lease.token

    def _each(
        self, leases: Sequence[Lease[Job]], act: Callable[[Lease[Job], float], bool],
    ) -> tuple[Lease[Job], ...]:
        now = self._clock()
        stood = tuple(lease for lease in leases if self._is_of_now(lease) and act(lease, now))
        self._tell()
        return stood

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _news(self, deadline: float) -> bool:
        """Wait until something may have changed; False once the deadline is over."""
        left = deadline - time.monotonic()
        if left <= 0.0:
            return False
        due = max(0.0, self.shelf.next_seconds() - self._clock())
        try:
            async with asyncio.timeout(min(left, max(due, _BREATH_SECONDS))):
                await self._changed.wait()
        except TimeoutError:
            pass
        return True


def _kept(card: Card[Job]) -> Kept:
    return Kept(
        job=card.body, place=card.place, put_seconds=card.put_seconds, attempt=card.attempt,
        until_seconds=card.until_seconds, worker=card.worker, reason=card.reason,
    )
