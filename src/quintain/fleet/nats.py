"""The queue that many hosts share: NATS JetStream, a stream for each kind and a consumer for each of its priorities."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import msgspec

from quintain.fleet._aside import Aside
from quintain.fleet._card import Count, Full, Lease, Place, Terms
from quintain.fleet._lanes import STALE_SECONDS, Lane, Lanes, consumer_of
from quintain.fleet._letters import Letter, Mark, Nothing, letter, nak
from quintain.fleet._link import Link, Refused
from quintain.fleet._subjects import Subjects
from quintain.fleet.base import Job, Kept, Line, Stats
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_CHUNK = 1000  # messages on their way at once
_FULL_CODE = 10077  # of both bounds of a stream: that of a subject, and that of all
_EXISTS = (10058, 10148, 10013)
_MARGIN = 0.05  # of a lease, at its end: what is said then might come too late


class NatsQueue:
    """A `Queue` of that name on the server at `url`, made with `NatsQueue.open`; close it with `aclose`. The server
    must be 2.11 or newer, with JetStream.

    NATS itself fences nothing: an acknowledgement that comes late removes a job that another holds. The fence here is
    of time: this side says nothing more for a lease once 95 % of its time is over, or after it was settled. What no
    clock can exclude (an acknowledgement that was under way for longer than the rest) the `Register` does: the queue
    says who may work, the register whose result counts.

    Otherwise than in the others: kinds take turns whatever is out; an order by priority is one of lanes, looked at
    before each pull; a delay that was put is a delivery that is not counted; what was given back, or is delayed, counts
    as leased until it is handed out again, and a job that was lost at its last delivery dies when it is due; a
    cancelled wait may cost a delivery; a server that is killed may forget the latest leases, and hand those jobs out
    again under the same attempt. `max_payload` of the server bounds bodies. By default the server syncs to the
    disk every two minutes: it survives SIGKILL, but a power cut loses what came last (`sync_interval` is the server's).
    """

    def __init__(self, link: Link, subjects: Subjects, terms: Terms, *, replicas: int) -> None:
        self._link = link
        self._subjects = subjects
        self._replicas = replicas
        self._aside = Aside(link, subjects)
        self._lanes = Lanes(link, subjects, self._aside)
        self._known: set[tuple[str, int]] = set()
        self._settled: dict[str, float] = {}
        self._wake = asyncio.Event()
        self.terms = terms

    @classmethod
    async def open(cls, url: str, terms: Terms | None = None, *, name: str = "quintain", replicas: int = 1) -> Self:
        """`url` as in nats://HOST:PORT or nats://TOKEN@HOST:PORT. Terms that are given become the queue's, for whoever
        opens it from then on; without any it keeps those that it has. Raises ValueError for another sort of name than
        letters, digits and underscores, HouseError(STORE_ERROR) where there is no such server."""
        subjects = Subjects(name)
        host = urlsplit(url)
        link = await Link.open(url, f"nats://{host.hostname}:{host.port or 4222}/{name}")
        try:
            queue = cls(link, subjects, terms or Terms(), replicas=replicas)
            await link.hear(subjects.wake, queue._hear)
            await queue._settle_terms(terms)
        except BaseException:
            await link.aclose()
            raise
        return queue

    async def put(
        self, jobs: Sequence[Job], *, delay_seconds: float = 0.0, wait_seconds: float = 0.0,
    ) -> tuple[str, ...]:
        deadline = time.monotonic() + wait_seconds
        added: list[str] = []
        dead = await self._aside.dead_ids()
        rest = [job for job in jobs if job.id not in dead]
        while rest:
            refused: list[Job] = []
            for first in range(0, len(rest), _CHUNK):
                new, full = await self._put(rest[first:first + _CHUNK], delay_seconds)
                added += new
                refused += full
            if added:
                await self._say_new({(job.kind, job.priority) for job in rest})
            rest = refused
            if rest:
                if time.monotonic() >= deadline:
                    raise Full(f"expected room for {rest[0].id!r}, found a bound of {self.terms.bound} "
                               f"for kind {rest[0].kind!r}")
                await asyncio.sleep(max(0.0, min(STALE_SECONDS, deadline - time.monotonic())))
        return tuple(added)

    async def lease(
        self, worker: str, *, most: int = 1, kinds: Collection[str] | None = None, wait_seconds: float = 0.0,
    ) -> tuple[Lease[Job], ...]:
        deadline = time.monotonic() + wait_seconds
        stale_seconds = STALE_SECONDS
        while True:
            self._wake.clear()
            await self._lanes.look(stale_seconds=stale_seconds)
            found = await self._gather(worker, most, kinds, stale_seconds)
            left = deadline - time.monotonic()
            if found or (left <= 0 and not stale_seconds):
                return tuple(found)
            if not stale_seconds:
                try:
                    async with asyncio.timeout(min(left, STALE_SECONDS)):
                        await self._wake.wait()
                except TimeoutError:
                    pass
            stale_seconds = 0.0

    async def extend(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        until = time.time() + self.terms.lease_seconds
        stood = self._standing(leases)
        await self._link.say([(lease.token, b"+WPI") for lease in stood])
        return tuple(msgspec.structs.replace(lease, until_seconds=until) for lease in stood)

    async def ack(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        stood = self._standing(leases, settle=True)
        await self._link.tell([(lease.token, b"+ACK") for lease in stood])  # lost, it is handed out again: no harm
        return stood

    async def nack(
        self, leases: Sequence[Lease[Job]], *, delay_seconds: float = 0.0, reason: str = "", counts: bool = True,
    ) -> tuple[Lease[Job], ...]:
        stood = self._standing(leases, settle=True)
        back: list[tuple[str, bytes]] = []
        for lease in stood:
            mark = Mark.of(lease.token)
            if not counts:
                await self._aside.pardon(lease.kind, mark.seq)
            elif (deliveries := await self._deliveries(lease.kind, mark)) >= self.terms.deliveries:
                await self._aside.bury(lease.body, lease.token, self._death(deliveries, reason or "given back"))
                continue
            back.append((lease.token, nak(delay_seconds)))
        await self._link.say([*back, (self._subjects.wake, b"[]")])
        return stood

    async def dead(self, leases: Sequence[Lease[Job]], *, reason: str) -> tuple[Lease[Job], ...]:
        stood = self._standing(leases, settle=True)
        for lease in stood:
            await self._aside.bury(lease.body, lease.token, reason)
        return stood

    async def revive(self, ids: Sequence[str]) -> tuple[str, ...]:
        found: list[str] = []
        for id in ids:
            grave = await self._aside.find(id)
            if grave is None:
                continue
            seq, job = grave
            if (await self._put([job], 0.0))[1]:
                raise Full(f"expected room for {id!r}, found a bound of {self.terms.bound} for kind {job.kind!r}")
            await self._aside.exhume(seq)
            await self._say_new([(job.kind, job.priority)])
            found.append(id)
        return tuple(found)

    async def peek(
        self, *, place: Place = Place.READY, kind: str | None = None, most: int = 20,
    ) -> tuple[Kept, ...]:
        if place is Place.DEAD:
            return await self._aside.dead(kind, most)
        await self._lanes.look(stale_seconds=0.0)
        found: list[tuple[float, int, Kept]] = []
        for lane in self._lanes.all:
            if kind not in (None, lane.kind):
                continue
            for_lane = 0
            is_ready = place is Place.READY
            bounds = (lane.next_seq, float("inf")) if is_ready else (1, lane.next_seq)
            async for message in self._lanes.walk(lane, *bounds):
                if for_lane == most:
                    break
                known = letter(message.data)
                is_delayed = known.ready_seconds > time.time()
                if not is_ready and is_delayed != (place is Place.DELAYED):
                    continue
                for_lane += 1
                kept = Kept(job=known.job(message.subject), place=Place.DELAYED if is_delayed else place,
                            put_seconds=known.put_seconds, until_seconds=known.ready_seconds if is_delayed else 0.0)
                found.append((self.terms.rank(known.put_seconds, lane.priority), message.seq, kept))
        found.sort(key=lambda one: one[:2])
        return tuple(kept for _, _, kept in found[:most])

    async def stats(self) -> Stats:
        await self._lanes.look(stale_seconds=0.0)
        dead = await self._aside.dead_by_kind()
        kinds: dict[str, Line] = {}
        for kind in sorted({*self._lanes.kinds, *dead, *self._lanes.stopped}):
            lanes = [lane for lane in self._lanes.all if lane.kind == kind]
            heads = [await self._lanes.head(lane) for lane in lanes if lane.ready]
            since = min((letter(head.data).put_seconds for head in heads if head is not None), default=None)
            kinds[kind] = Line(
                count=Count(ready=sum(lane.ready for lane in lanes), leased=sum(lane.out for lane in lanes),
                            dead=dead.get(kind, 0)),
                stopped=kind in self._lanes.stopped,
                oldest_seconds=None if since is None else max(0.0, time.time() - since),
            )
        return Stats(kinds=kinds, terms=self.terms)

    async def drain(self, *, kind: str | None = None, most: int = 1000) -> tuple[Job, ...]:
        await self._lanes.look(stale_seconds=0.0)
        found: list[Job] = []
        for lane in self._lanes.all:
            if kind not in (None, lane.kind):
                continue
            while len(found) < most:
                messages = await self._link.pull(lane.stream, lane.consumer, min(_CHUNK, most - len(found)))
                if not messages:
                    break
                found += [letter(message.data).job(message.subject) for message in messages]
                await self._link.say([(message.reply, b"+ACK") for message in messages])
            async for message in self._lanes.walk(lane, 1, lane.next_seq):
                if len(found) == most:
                    break
                known = letter(message.data)
                if known.ready_seconds > time.time():  # delayed, so that nobody holds it
                    await self._link.ask(f"STREAM.MSG.DELETE.{lane.stream}", {"seq": message.seq}, Nothing)
                    found.append(known.job(message.subject))
        self._lanes.forget()
        return tuple(found)

    async def stop(self, kind: str) -> None:
        await self._aside.stop(kind)
        self._lanes.forget()

    async def resume(self, kind: str) -> None:
        await self._aside.resume(kind)
        await self._say_new([(kind, -1)])

    async def aclose(self) -> None:
        await self._link.aclose()

    async def _gather(
        self, worker: str, most: int, kinds: Collection[str] | None, stale_seconds: float,
    ) -> list[Lease[Job]]:
        """Pull where it is due, until there is enough or nothing more."""
        found: list[Lease[Job]] = []
        try:
            for lane in self._lanes.probes(kinds, stale_seconds=stale_seconds):
                if len(found) < most:
                    found += await self._pull(lane, worker, most - len(found))
            while len(found) < most:
                shares = await self._lanes.shares(most - len(found), kinds, self.terms)
                if not shares:
                    break
                for lane, share in shares:
                    found += await self._pull(lane, worker, share)
        except asyncio.CancelledError:
            await self.nack(found, counts=False)
            raise
        return found

    async def _pull(self, lane: Lane, worker: str, most: int) -> list[Lease[Job]]:
        until = time.time() + self.terms.lease_seconds  # the server's clock for it starts later
        messages = await self._link.pull(lane.stream, lane.consumer, most)
        marks = [Mark.of(message.reply) for message in messages]
        lane.took(len(messages), most, max((mark.seq for mark in marks), default=None))
        return [
            lease for message, mark in zip(messages, marks, strict=True)
            if (lease := await self._lease(message, mark, lane.kind, worker, until)) is not None
        ]

    async def _lease(
        self, message: Msg, mark: Mark, kind: str, worker: str, until: float,
    ) -> Lease[Job] | None:
        """None for a message that is not due yet, or too often."""
        known = letter(message.data)
        job = known.job(message.subject)
        if known.ready_seconds > time.time():
            await self._aside.pardon(kind, mark.seq)
            await self._link.say([(message.reply, nak(known.ready_seconds - time.time()))])
            return None
        if mark.attempt > self.terms.deliveries:
            before = await self._deliveries(kind, mark) - 1
            if before >= self.terms.deliveries:
                await self._aside.bury(job, message.reply, self._death(before, "its lease ran out"))
                return None
        return Lease(id=job.id, attempt=mark.attempt, worker=worker, until_seconds=until, kind=kind, body=job,
                     token=message.reply)

    def _standing(self, leases: Sequence[Lease[Job]], *, settle: bool = False) -> tuple[Lease[Job], ...]:
        """Those that still stand by the clock, and were not settled by us."""
        now = time.time()
        if len(self._settled) > _CHUNK:
            self._settled = {token: until for token, until in self._settled.items() if until > now}
        margin = _MARGIN * self.terms.lease_seconds
        stood = []
        for lease in leases:
            if lease.until_seconds - margin > now and lease.token not in self._settled:
                stood.append(lease)
                if settle:
                    self._settled[lease.token] = lease.until_seconds
        return tuple(stood)

    async def _put(self, jobs: Sequence[Job], delay_seconds: float) -> tuple[list[str], list[Job]]:
        """The ids that were added, and the jobs that there was no room for."""
        for kind, priority in {(job.kind, job.priority) for job in jobs}:
            await self._ensure(kind, priority)
        now = time.time()
        stored = await self._link.publish([(
            self._subjects.job(job.kind, job.priority, job.id),
            msgspec.msgpack.encode(Letter(tenant=job.tenant, put_seconds=now, ready_seconds=now + delay_seconds,
                                          body=job.body)),
        ) for job in jobs])
        added, full = [], []
        for job, answer in zip(jobs, stored, strict=True):
            if answer.error is None:
                added.append(job.id)
            elif answer.error.err_code != _FULL_CODE:
                self._known.clear()
                raise HouseError(FaultKind.STORE_ERROR, f"cannot put {job.id!r}: {answer.error.description}")
            elif "per subject" not in answer.error.description:
                full.append(job)
        return added, full

    async def _say_new(self, lanes: Collection[tuple[str, int]]) -> None:
        """Tell everybody, ourselves first, where something was put."""
        self._lanes.hear(lanes)
        await self._link.say([(self._subjects.wake, msgspec.json.encode(list(lanes)))])

    def _hear(self, said: bytes) -> None:
        self._lanes.hear(msgspec.json.decode(said, type=list[tuple[str, int]]))
        self._wake.set()

    async def _ensure(self, kind: str, priority: int) -> None:
        """The stream of a kind, and the consumer of one of its priorities."""
        if (kind, priority) in self._known:
            return
        await self._create(f"STREAM.CREATE.{self._subjects.stream(kind)}", self._stream(kind))
        await self._create(
            f"CONSUMER.CREATE.{self._subjects.stream(kind)}.{consumer_of(priority)}",
            {"stream_name": self._subjects.stream(kind), "action": "create", "config": self._consumer(kind, priority)})
        self._known.add((kind, priority))

    def _stream(self, kind: str) -> dict[str, object]:
        return {
            "name": self._subjects.stream(kind), "subjects": [self._subjects.of_kind(kind)], "retention": "workqueue",
            "storage": "file", "num_replicas": self._replicas, "discard": "new", "max_msgs": self.terms.bound,
            "max_msgs_per_subject": 1, "discard_new_per_subject": True,
        }

    def _consumer(self, kind: str, priority: int) -> dict[str, object]:
        return {
            "name": consumer_of(priority), "durable_name": consumer_of(priority), "ack_policy": "explicit",
            "ack_wait": int(self.terms.lease_seconds * 1e9), "max_deliver": -1, "max_ack_pending": -1,
            "filter_subject": self._subjects.lane(kind, priority),
        }

    async def _create(self, what: str, body: dict[str, object]) -> None:
        try:
            await self._link.ask(what, body, Nothing)
        except Refused as refused:
            if refused.error.err_code not in _EXISTS:
                raise HouseError(FaultKind.STORE_ERROR, str(refused)) from refused

    async def _settle_terms(self, given: Terms | None) -> None:
        await self._create(f"STREAM.CREATE.{self._subjects.aside}", self._aside.stream(self._replicas))
        kept = await self._aside.terms()
        self.terms = given or kept or Terms()
        if self.terms == kept:
            return
        await self._aside.keep(self.terms)
        await self._lanes.look(stale_seconds=0.0)
        for kind in self._lanes.kinds:
            await self._link.ask(f"STREAM.UPDATE.{self._subjects.stream(kind)}", self._stream(kind), Nothing)
        for lane in self._lanes.all:
            await self._link.ask(f"CONSUMER.CREATE.{lane.stream}.{lane.consumer}", {
                "stream_name": lane.stream, "action": "update", "config": self._consumer(lane.kind, lane.priority),
            }, Nothing)

    def _death(self, deliveries: int, reason: str) -> str:
        return f"delivery {deliveries} of {self.terms.deliveries}: {reason}"

    async def _deliveries(self, kind: str, mark: Mark) -> int:
        """How many deliveries count, this one among them."""
        if mark.attempt < self.terms.deliveries:
            return mark.attempt
        return mark.attempt - await self._aside.pardons(kind, mark.seq)
