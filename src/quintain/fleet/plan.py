"""Who runs next, and where: the pure planner of a fleet.

No clock, no I/O, no asyncio: times come in, placements come out, and the same calls give the same decisions.

    offer(ask) → decide(at) → Placement(id, host) → finish(id) | lose(host) | withdraw(id)

Among everything that may begin and fits somewhere, the next is an ask of the tenant with the smallest share of the
fleet for its weight; of that tenant, of the kind with the smallest; of that kind, the ask of least rank (its time of
offer less its priority's worth in waiting, see `Fairness`). The promises, each with a property test:

* **Never above capacity**, in any dimension, on any host; tokens of inference never above the fleet's.
* **Work conserving**: after `decide`, nothing that waits and may begin fits on a host that is not held.
* **Fair**: where two parties wait for the same shape, none is given a place while the other has a smaller share for
  its weight; so a decision never puts one more than its own charge ahead of another.
* **Ageing**: of one tenant, kind and shape, an ask is overtaken only by those offered at most (their priority - its
  own) * `ageing_seconds` after it.
* **No starvation by size**: an ask, or a gang, that is passed over by smaller ones for `hold_seconds` (an eighth more
  at most) has hosts kept clear for it, and begins at the latest when what ran on them is over.
* **No deadlock**: a gang is placed whole or not at all, and hosts are held for one bid at a time.

A decision costs O(log n) in asks, parties and hosts, times the number of distinct shapes that wait.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from quintain.fleet.plan_clearing import Clearing
from quintain.fleet.plan_party import Parties, Party, Share
from quintain.fleet.plan_rooms import Host, Rooms
from quintain.fleet.plan_turns import Bid, Lane
from quintain.fleet.plan_words import Ask, Fairness, Placement, Room, Shape, Why

_SHAPES_KEPT = 64

class _Run:
    """One ask that has a place."""

    __slots__ = ("host", "kind", "shape")

    def __init__(self, host: Host, shape: Shape, kind: Party) -> None:
        self.host = host
        self.shape = shape
        self.kind = kind


class Planner:
    """The waiting asks, the hosts, and what runs where. See the module for what it promises."""

    def __init__(self, fairness: Fairness | None = None, *, inference_tokens: int = 0) -> None:
        self.fairness = fairness or Fairness()
        self._rooms = Rooms()
        self._parties = Parties(self.fairness)
        self._clearing = Clearing(self._rooms)
        self._lanes: dict[tuple[bool, tuple[Shape, ...]], Lane] = {}
        self._waiting: dict[Lane, None] = {}  # a set that keeps its order, so that runs are alike
        self._bids: dict[str, Bid] = {}  # of every ask that waits, by its own id
        self._runs: dict[str, _Run] = {}
        self._tokens = inference_tokens
        self._tokens_used = 0
        self._number = 0
        self._look = -math.inf  # when to see next who is passed over

    # What there is.

    def host(self, name: str, room: Room, *, slots: int) -> None:
        """A host joins, or has more or less room than before. `slots` is how many sandboxes it may run at once."""
        if slots < 0:
            raise ValueError(f"host {name!r}: slots must be at least 0, found {slots}")
        host = self._rooms.set(name, room, slots)
        if host.held:
            self._clearing.end()
        self._resize()

    def lose(self, name: str) -> list[str]:
        """A host is gone: the ids of what ran there, which is over for the planner. Raises KeyError for a stranger."""
        if name not in self._rooms.hosts:
            raise KeyError(f"no host {name!r}")
        host = self._rooms.remove(name)
        if host.held:
            self._clearing.end()
        ids = sorted(host.running)
        for id in ids:
            self.finish(id)
        self._resize()
        return ids

    def tokens(self, inference_tokens: int) -> None:
        """How many tokens of inference the fleet may hold at once, from now on."""
        if inference_tokens < 0:
            raise ValueError(f"inference_tokens must be at least 0, found {inference_tokens}")
        self._tokens = inference_tokens
        self._clearing.again()
        if self._clearing.tokens > inference_tokens:
            self._clearing.end()
        self._resize()

    # Who asks.

    def offer(self, ask: Ask, *, at: float) -> None:
        """Somebody wants a place. Raises ValueError for an id that waits or runs already."""
        if ask.id in self._bids or ask.id in self._runs:
            raise ValueError(f"expected a new id, found {ask.id!r}")
        self._enter(ask.id, ((ask.id, ask.need.shape),), ask, at=at, gang=False)

    def offer_gang(self, name: str, asks: Sequence[Ask], *, at: float) -> None:
        """Asks that need each other: they begin together or not at all. One tenant, one kind, one priority. Raises
        ValueError for others, for none, and for ids that wait or run already."""
        parties = {(ask.tenant, ask.kind, ask.priority) for ask in asks}
        if len(parties) != 1:
            raise ValueError(f"gang {name!r}: expected asks of one tenant, kind and priority, found {sorted(parties)}")
        ids = [ask.id for ask in asks]
        if len(set(ids)) < len(ids) or any(id in self._bids or id in self._runs for id in ids):
            raise ValueError(f"gang {name!r}: expected new ids, found {ids}")
        charge = self._parties.charge
        members = [(ask.id, ask.need.shape) for ask in asks]
        members.sort(key=lambda member: (-charge(member[1]), member[1], member[0]))  # so they are placed: largest first
        self._enter(name, tuple(members), asks[0], at=at, gang=True)

    def withdraw(self, id: str) -> bool:
        """An ask that waits is not wanted any more; of a gang, none is. `False` where it does not wait."""
        bid = self._bids.get(id)
        if bid is None:
            return False
        self._leave(bid)
        return True

    def finish(self, id: str) -> bool:
        """What ran is over, however it ended. `False` where it did not run."""
        run = self._runs.pop(id, None)
        if run is None:
            return False
        run.host.running.discard(id)
        self._tokens_used -= run.shape[3]
        self._rooms.give(run.host, run.shape)
        self._parties.change(run.kind, run.shape, -1)
        for lane in self._waiting:
            lane.fell(run.kind)
        return True

    # Who may.

    def stop(self, kind: str) -> None:
        """Begin no more of a kind, for any tenant; its asks keep their places in line. What a circuit breaker calls."""
        self._turned(self._parties.bar(kind, stopped=True))

    def resume(self, kind: str) -> None:
        self._turned(self._parties.bar(kind, stopped=False))

    def limit(self, tenant: str, running: int | None, *, kind: str | None = None) -> None:
        """A quota: a tenant (or a kind of it) has at most so many running; `None` for no limit. What already runs goes
        on; a gang that begins below the limit may end above it."""
        if running is not None and running < 0:
            raise ValueError(f"limit of tenant {tenant!r}: expected at least 0, found {running}")
        self._turned(self._parties.limit(tenant, kind, running))

    # What is decided.

    def decide(self, at: float, *, most: int | None = None, host: str | None = None) -> list[Placement]:
        """The next placements, up to `most` (a gang may exceed it); for one host only where one is named, as when a
        worker asks for work. They count as running from now on. Raises KeyError for a host that is not known.

        Gangs begin, and hosts begin to be kept clear, only where no host is named: so do that now and then too."""
        only = None if host is None else self._rooms.hosts[host]
        found: list[Placement] = []
        while most is None or len(found) < most:
            chosen = self._choose(at, only)
            if chosen is None:
                break
            found += self._begin(*chosen)
        return found

    # What is seen.

    @property
    def waiting(self) -> int:
        """Asks without a place."""
        return len(self._bids)

    @property
    def running(self) -> int:
        return len(self._runs)

    @property
    def held(self) -> tuple[str, ...]:
        """The hosts that are kept clear for a large ask or a gang."""
        hosts = self._clearing.hosts
        return tuple(host.name for host in hosts) if hosts else ()

    def where(self, id: str) -> str | None:
        """The host of what runs; `None` where it does not."""
        run = self._runs.get(id)
        return run.host.name if run is not None else None

    def shares(self) -> list[Share]:
        """By tenant and kind, those with something that runs or waits. O(waiting)."""
        wait = {bid.kind for bid in self._bids.values()}
        return [share for party, share in self._parties.shares() if party.running or party in wait]

    def why(self, id: str) -> Why:
        """What an ask waits for. O(hosts): for people, not for loops."""
        if id in self._runs:
            return Why.RUNNING
        bid = self._bids.get(id)
        if bid is None:
            return Why.UNKNOWN
        lane = bid.lane
        if bid.kind.barred:
            return Why.STOPPED if bid.kind.stopped else Why.LIMITED
        if lane.tokens > self._tokens or self._rooms.clearance(lane.shapes) is None:
            return Why.TOO_BIG
        if bid is self._clearing.bid:
            return Why.HELD_FOR
        if lane.tokens > self._tokens_left(lane):
            return Why.TOKENS
        hosts = self._rooms.together(lane.shapes)
        for host, shape in zip(hosts or (), lane.shapes, strict=False):
            self._rooms.give(host, shape)
        return Why.NO_ROOM if hosts is None else Why.TURN

    # How it is done.

    def _enter(self, name: str, members: tuple[tuple[str, Shape], ...], ask: Ask, *, at: float, gang: bool) -> None:
        """A bid begins to wait; `ask` is any of its asks."""
        lane = self._lane(tuple(shape for _, shape in members), gang)
        self._number += 1
        bid = Bid(
            name, members, kind=self._parties.kind(ask.tenant, ask.kind), lane=lane, number=self._number,
            rank=self.fairness.rank(at, ask.priority),
        )
        lane.add(bid)
        self._waiting[lane] = None
        for id, _ in members:
            self._bids[id] = bid

    def _choose(self, at: float, only: Host | None) -> tuple[Bid, list[Host]] | None:
        """Who begins, and on which hosts: the places are taken."""
        while True:
            cleared = self._cleared(only) if self._clearing.bid is not None else None
            if cleared is not None:
                return cleared
            first = self._first(only)
            if first is None:
                return None
            hosts = self._places(first.lane, only)
            if hosts is None:
                continue
            late = self._passed_over(at, first) if only is None and at >= self._look else None
            if late is None or not self._clear(late):
                return first, hosts
            for host, shape in zip(hosts, first.lane.shapes, strict=True):  # another comes first
                self._rooms.give(host, shape)

    def _first(self, only: Host | None) -> Bid | None:
        """Whose turn it is among those who may hope for a place. A gang may hope in vain, once for each state."""
        best: Bid | None = None
        best_key = (0.0, 0.0, 0.0, 0)
        version, find = self._rooms.version, self._rooms.find
        for lane in self._waiting:
            shape = lane.shapes[0]
            if only is not None:
                is_open = not lane.gang and not only.held and only.fits(shape)
            else:
                is_open = lane.tried != version and find(shape) is not None
            if not is_open or (lane.tokens and lane.tokens > self._tokens_left(lane)):
                continue
            bid = lane.first()
            if bid is not None:
                key = bid.key
                if best is None or key < best_key:
                    best, best_key = bid, key
        return best

    def _places(self, lane: Lane, only: Host | None) -> list[Host] | None:
        """Take a place for each shape of a lane's bids, or none."""
        if not lane.gang:
            host = only or self._rooms.find(lane.shapes[0])
            if host is None:
                return None
            host.take(lane.shapes[0])
            return [host]
        hosts = self._rooms.together(lane.shapes)
        lane.tried = self._rooms.version if hosts is None else -1
        return hosts

    def _cleared(self, only: Host | None) -> tuple[Bid, list[Host]] | None:
        """The bid that hosts were kept clear for, once it fits."""
        bid = self._clearing.bid
        if bid is None:
            return None
        if bid.kind.barred:
            self._clearing.end()  # it may not begin now, so nobody waits for it
            return None
        if only is not None and (bid.gang or not only.held):
            return None
        hosts = self._clearing.places(self._tokens - self._tokens_used)
        if hosts is None:
            return None
        for host, shape in zip(hosts, bid.lane.shapes, strict=True):
            host.take(shape)
        return bid, hosts

    def _tokens_left(self, lane: Lane) -> int:
        bid = self._clearing.bid
        kept = 0 if bid is None or bid.lane is lane else bid.lane.tokens
        return self._tokens - self._tokens_used - kept

    def _passed_over(self, at: float, chosen: Bid) -> Bid | None:
        """Remember who is passed over for this one; whoever was for too long, and is due to have hosts kept clear.
        It is enough to look now and then."""
        self._look = at + self.fairness.hold_seconds / 8
        late: Bid | None = None
        for lane in self._waiting:
            bid = lane.first()
            if bid is None or bid.key >= chosen.key:
                continue
            if lane.since is None:
                lane.since = at
            elif self._clearing.bid is None and at - lane.since >= self.fairness.hold_seconds:
                late = bid if late is None or bid.key < late.key else late
        return late

    def _clear(self, bid: Bid) -> bool:
        if bid.lane.tokens <= self._tokens and self._clearing.begin(bid):
            return True
        bid.lane.since = None  # the whole fleet would not do: ask again after as long once more
        return False

    def _begin(self, bid: Bid, hosts: list[Host]) -> list[Placement]:
        bid.lane.since = None
        gang = bid.id if bid.gang else ""
        found = []
        for host, (id, shape) in zip(hosts, bid.members, strict=True):
            self._runs[id] = _Run(host, shape, bid.kind)
            host.running.add(id)
            self._tokens_used += shape[3]
            self._parties.change(bid.kind, shape, 1)
            found.append(Placement(id=id, host=host.name, gang=gang))
        self._leave(bid)
        return found

    def _leave(self, bid: Bid) -> None:
        """A bid waits no more."""
        bid.waits = False
        for id, _ in bid.members:
            del self._bids[id]
        if bid is self._clearing.bid:
            self._clearing.end()
        lane = bid.lane
        lane.count -= 1
        if not lane.count:
            lane.since = None
            del self._waiting[lane]
            if len(self._lanes) > _SHAPES_KEPT:
                del self._lanes[lane.gang, lane.shapes]
                for shape in lane.shapes:
                    self._rooms.forget(shape)

    def _lane(self, shapes: tuple[Shape, ...], gang: bool) -> Lane:
        lane = self._lanes.get((gang, shapes))
        if lane is None:
            lane = self._lanes[gang, shapes] = Lane(shapes, gang=gang)
        return lane

    def _turned(self, kinds: list[Party]) -> None:
        self._clearing.again()
        for kind in kinds:
            for lane in self._waiting:
                lane.fell(kind)

    def _resize(self) -> None:
        self._parties.resize((*self._rooms.total[:3], self._tokens), self._rooms.slots)
        for lane in self._waiting:
            lane.renew()

