"""What a durable queue of jobs is, wherever its jobs lie."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from quintain.fleet._card import Count, Lease, Place, Terms

#: What a body may be at most: a queue carries what to do, and large things go by their digest through a blob store.
BODY_BYTES = 512 * 1024
ID_BYTES = 200
#: Priorities are few, so that each can be a subject of its own; 0 is the least.
PRIORITIES = range(10)


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing to be done. `id` is the caller's: while a queue keeps it, putting it again adds nothing. `kind` is what
    is dealt with fairly and can be stopped; `tenant` says for whom; `priority` is 0 (least) to 9, and worth
    `Terms.ageing_seconds` of waiting for each step. `body` is the caller's own, at most BODY_BYTES."""

    id: str
    kind: str
    tenant: str = ""
    priority: int = 0
    body: bytes = b""

    def __post_init__(self) -> None:
        for name, value, least, most in (("id", self.id, 1, ID_BYTES), ("kind", self.kind, 1, 64),
                                         ("tenant", self.tenant, 0, 64)):
            size = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
            if not least <= size <= most:
                raise ValueError(f"expected a job's {name} of {least} to {most} bytes, found {size}: {value[:80]!r}")
        if self.priority not in PRIORITIES:
            raise ValueError(f"job {self.id!r}: expected a priority from 0 to 9, found {self.priority!r}")
        if len(self.body) > BODY_BYTES:
            raise ValueError(f"job {self.id!r}: expected a body of at most {BODY_BYTES} bytes, found "
                             f"{len(self.body)}: keep it in a blob store, and send its digest")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a queue keeps it. `until_seconds` is when its lease or its delay ends; `reason` says why it is dead, or
    why it was given back last. Times are of the queue's clock (Unix time)."""

    job: Job
    place: Place
    put_seconds: float
    attempt: int = 0
    until_seconds: float = 0.0
    worker: str = ""
    reason: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind stands. `oldest_seconds` is how long its first ready job has waited; `None` when none is ready."""

    count: Count
    stopped: bool = False
    oldest_seconds: float | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at one moment, by kind; kinds that have been seen stay listed."""

    kinds: dict[str, Line]
    terms: Terms

    @property
    def count(self) -> Count:
        found = [line.count for line in self.kinds.values()]
        return Count(**{name: sum(getattr(one, name) for one in found) for name in Count.__struct_fields__})


class Queue(Protocol):
    """Jobs that are handed out at least once, and are gone when they are acknowledged.

    A lease lasts `terms.lease_seconds` from when it is given or extended; then the job is handed out again, after
    `terms.deliveries` deliveries it is dead. `ack`, `nack`, `dead` and `extend` are fenced: they do nothing for a lease
    that was lost meanwhile, and return those that still stood. Kinds share what is handed out, so that none waits
    behind another's flood; in a kind, the job of least `terms.rank` is next. Several tasks of one event loop may use
    one; every process opens its own. Raises HouseError(STORE_ERROR) where the queue cannot be reached or read.
    """

    @property
    def terms(self) -> Terms: ...

    async def put(
        self, jobs: Sequence[Job], *, delay_seconds: float = 0.0, wait_seconds: float = 0.0,
    ) -> tuple[str, ...]:
        """Add jobs, to be handed out after a delay; the ids of those that were not kept already. At the bound of a
        kind it waits `wait_seconds` for room, and raises Full then; what was added before stays."""
        ...

    async def lease(
        self, worker: str, *, most: int = 1, kinds: Collection[str] | None = None, wait_seconds: float = 0.0,
    ) -> tuple[Lease[Job], ...]:
        """Up to `most` jobs of these kinds (`None`: of all), as soon as there is one; none after `wait_seconds`."""
        ...

    async def extend(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        """The heartbeat of a worker that is alive: the leases as they are now. Who finds one missing has lost it, and
        must drop the work: another has it."""
        ...

    async def ack(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        """They are done, and leave."""
        ...

    async def nack(
        self, leases: Sequence[Lease[Job]], *, delay_seconds: float = 0.0, reason: str = "", counts: bool = True,
    ) -> tuple[Lease[Job], ...]:
        """Give them back, to be handed out again after a delay; at the last delivery they are dead. A worker that goes
        in good order gives back what it has not begun with `counts=False`: that was no delivery."""
        ...

    async def dead(self, leases: Sequence[Lease[Job]], *, reason: str) -> tuple[Lease[Job], ...]:
        """They will never do: keep them aside, with the reason."""
        ...

    async def revive(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Put dead jobs back, with all their deliveries before them; the ids of those that were dead."""
        ...

    async def peek(
        self, *, place: Place = Place.READY, kind: str | None = None, most: int = 20,
    ) -> tuple[Kept, ...]:
        """Look at jobs without touching them: ready ones in their order within a kind."""
        ...

    async def stats(self) -> Stats: ...

    async def drain(self, *, kind: str | None = None, most: int = 1000) -> tuple[Job, ...]:
        """Take out up to `most` jobs that wait (ready or delayed); what is leased or dead stays."""
        ...

    async def stop(self, kind: str) -> None:
        """Hand out no more of a kind, in whatever process, from a second later on. Its jobs stay, its leases stand."""
        ...

    async def resume(self, kind: str) -> None: ...

    async def aclose(self) -> None: ...
