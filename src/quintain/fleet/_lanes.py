"""What is known of the lanes of a queue in NATS (one for each kind and priority), and whose turn it is.

Each lane is a consumer of its own, so that the server keeps the leases; which lane is pulled from next is decided here,
from counts that are a quarter of a second old at most. Kinds take turns; in a kind the lane goes first whose oldest job
has the least rank, as everywhere.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection

import msgspec

from quintain.fleet._aside import Aside
from quintain.fleet._card import Terms
from quintain.fleet._letters import Message, Stream, letter
from quintain.fleet._link import Link, Refused
from quintain.fleet._subjects import Subjects

#: How old the counts may be by which it is decided where to pull.
STALE_SECONDS = 0.25


class _Streams(msgspec.Struct, frozen=True, kw_only=True):
    total: int = 0
    streams: list[Stream] | None = None


class _Delivered(msgspec.Struct, frozen=True, kw_only=True):
    stream_seq: int = 0


class _Consumer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    delivered: _Delivered
    num_pending: int = 0
    num_ack_pending: int = 0


class _Consumers(msgspec.Struct, frozen=True, kw_only=True):
    total: int = 0
    consumers: list[_Consumer] | None = None


class Lane:
    """`ready` waits, `out` is leased or given back with a delay; `next_seq` is where what waits begins in the stream,
    and `head_seconds` since when the first of it waits, if that was asked for."""

    __slots__ = ("head_seconds", "kind", "next_seq", "out", "priority", "ready", "stream")

    def __init__(self, kind: str, priority: int, stream: str, *, ready: int, out: int, next_seq: int) -> None:
        self.kind = kind
        self.priority = priority
        self.stream = stream
        self.ready = ready
        self.out = out
        self.next_seq = next_seq
        self.head_seconds: float | None = None

    @property
    def consumer(self) -> str:
        return consumer_of(self.priority)

    def took(self, found: int, wanted: int, last_seq: int | None) -> None:
        """A pull brought so many of those that were wanted, the last of them at that place in the stream."""
        self.ready = max(0, self.ready - found) if found == wanted else 0
        self.out += found
        self.head_seconds = None
        if last_seq is not None:
            self.next_seq = max(self.next_seq, last_seq + 1)


def consumer_of(priority: int) -> str:
    return f"p{priority}"


class Lanes:
    def __init__(self, link: Link, subjects: Subjects, aside: Aside) -> None:
        self._link = link
        self._subjects = subjects
        self._aside = aside
        self._looked = -STALE_SECONDS
        self._probed = -STALE_SECONDS
        self._served: dict[str, int] = {}
        self._turn = 0
        self.all: list[Lane] = []
        self.kinds: tuple[str, ...] = ()
        self.stopped: frozenset[str] = frozenset()

    async def look(self, *, stale_seconds: float = STALE_SECONDS) -> None:
        """Ask the server, if what is known is older than that."""
        if time.monotonic() - self._looked < stale_seconds:
            return
        began = time.monotonic()
        streams = await self.streams()
        found: list[Lane] = []
        for stream in streams:
            kind = self._subjects.kind_of(stream.config.name)
            if kind is None or not stream.state.messages:
                continue
            async for one in self._consumers(stream.config.name):
                found.append(Lane(kind, int(one.name[1:]), stream.config.name, ready=one.num_pending,
                                  out=one.num_ack_pending, next_seq=one.delivered.stream_seq + 1))
        kinds = (self._subjects.kind_of(stream.config.name) for stream in streams)
        self.kinds = tuple(sorted(kind for kind in kinds if kind is not None))
        self.stopped = await self._aside.stopped()
        self.all = found
        self._looked = began

    def forget(self) -> None:
        """What is known is out of date."""
        self._looked = -STALE_SECONDS

    def hear(self, lanes: Collection[tuple[str, int]]) -> None:
        """Something was put there: where nothing was known to wait, what is known is out of date."""
        if not {(lane.kind, lane.priority) for lane in self.all if lane.ready}.issuperset(lanes):
            self.forget()

    def probes(self, kinds: Collection[str] | None, *, stale_seconds: float = STALE_SECONDS) -> list[Lane]:
        """Lanes where nothing waits, and something that was given back or lost may: to be tried now and then."""
        if time.monotonic() - self._probed < stale_seconds:
            return []
        self._probed = time.monotonic()
        return [lane for lane in self._open(kinds) if not lane.ready and lane.out]

    async def shares(self, most: int, kinds: Collection[str] | None, terms: Terms) -> list[tuple[Lane, int]]:
        """From which lanes to pull, and how much."""
        waiting: dict[str, list[Lane]] = {}
        for lane in self._open(kinds):
            if lane.ready:
                waiting.setdefault(lane.kind, []).append(lane)
        order = sorted(waiting, key=lambda kind: self._served.get(kind, 0))
        given = dict.fromkeys(order, 0)
        left = {kind: sum(lane.ready for lane in waiting[kind]) for kind in order}
        while most > 0 and (open_ := [kind for kind in order if given[kind] < left[kind]]):
            for kind in open_[:most]:
                given[kind] += 1
                self._turn += 1
                self._served[kind] = self._turn
            most -= min(most, len(open_))
        shares: list[tuple[Lane, int]] = []
        for kind, share in given.items():
            rest = share
            for lane in await self._in_order(waiting[kind], terms):
                if rest:
                    shares.append((lane, min(rest, lane.ready)))
                    rest -= shares[-1][1]
        return shares

    async def head(self, lane: Lane) -> Message | None:
        """The first message that waits in a lane."""
        return await self._next(lane.stream, self._subjects.lane(lane.kind, lane.priority), lane.next_seq)

    async def walk(self, lane: Lane, first: int, until: float) -> AsyncIterator[Message]:
        """The messages of a lane from one place in its stream on, up to and without another."""
        subject = self._subjects.lane(lane.kind, lane.priority)
        while (found := await self._next(lane.stream, subject, first)) is not None:
            if found.seq >= until:
                break
            yield found
            first = found.seq + 1

    async def _next(self, stream: str, subject: str, first: int) -> Message | None:
        """The first message of a subject from a place on."""
        return await self._aside.get(stream, {"seq": first, "next_by_subj": subject})

    async def streams(self) -> list[Stream]:
        found: list[Stream] = []
        while True:
            page = await self._link.ask("STREAM.LIST", {"subject": self._subjects.jobs, "offset": len(found)}, _Streams)
            found += page.streams or []
            if len(found) >= page.total or not page.streams:
                return found

    async def _consumers(self, stream: str) -> AsyncIterator[_Consumer]:
        offset = 0
        while True:
            try:
                page = await self._link.ask(f"CONSUMER.LIST.{stream}", {"offset": offset}, _Consumers)
            except Refused:
                return  # the stream has gone meanwhile
            for one in page.consumers or ():
                yield one
            offset += len(page.consumers or ())
            if not page.consumers or offset >= page.total:
                return

    def _open(self, kinds: Collection[str] | None) -> list[Lane]:
        return [lane for lane in self.all if lane.kind not in self.stopped and (kinds is None or lane.kind in kinds)]

    async def _in_order(self, lanes: list[Lane], terms: Terms) -> list[Lane]:
        if len(lanes) == 1:
            return lanes
        for lane in lanes:
            if lane.head_seconds is None:
                found = await self.head(lane)
                lane.head_seconds = time.time() if found is None else letter(found.data).put_seconds
        return sorted(lanes, key=lambda lane: (terms.rank(lane.head_seconds or 0.0, lane.priority), -lane.priority))
