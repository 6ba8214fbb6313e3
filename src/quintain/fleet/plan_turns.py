"""Whose turn it is among those who wait: tenants by their share, their kinds by theirs, and then by age."""

from __future__ import annotations

import heapq
import math
from typing import Generic, Protocol, TypeVar

from quintain.fleet.plan_party import Party
from quintain.fleet.plan_words import Shape

_COMPACT = 64


class Keyed(Protocol):
    @property
    def key(self) -> float: ...


K = TypeVar("K", bound=Keyed)


class Turns(Generic[K]):
    """A heap whose keys may change: growing keys are noticed when they come up, falling ones must be `put` again."""

    __slots__ = ("_heap", "_keys", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._keys: dict[K, float] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._keys)

    def put(self, who: K) -> None:
        old = self._keys.get(who)
        if old is None or who.key < old:
            self._set(who)
            heapq.heappush(self._heap, (who.key, self._number, who))
            if len(self._heap) > _COMPACT + 2 * len(self._keys):
                self.renew()

    def renew(self) -> None:
        """Order all of them by their present keys."""
        members = list(self._keys)
        self._heap = []
        for who in members:
            self._set(who)
            self._heap.append((who.key, self._number, who))
        heapq.heapify(self._heap)

    def drop(self, who: K) -> None:
        self._keys.pop(who, None)

    def first(self) -> K | None:
        heap = self._heap
        while heap:
            key, _, who = heap[0]
            if self._keys.get(who) != key:
                heapq.heappop(heap)
            elif who.key != key:
                self._set(who)
                heapq.heapreplace(heap, (who.key, self._number, who))
            else:
                return None if key == math.inf else who
        return None

    def _set(self, who: K) -> None:
        self._keys[who] = who.key
        self._number += 1


class Bid:
    """What waits for one decision: a single ask, or a gang whose members are placed together or not at all."""

    __slots__ = ("gang", "id", "kind", "lane", "members", "number", "rank", "waits")

    def __init__(
        self, id: str, members: tuple[tuple[str, Shape], ...], *, kind: Party, lane: Lane, rank: float, number: int,
    ) -> None:
        self.id = id
        self.members = members
        self.kind = kind
        self.lane = lane
        self.rank = rank
        self.number = number
        self.gang = lane.gang
        self.waits = True

    @property
    def key(self) -> tuple[float, float, float, int]:
        kind = self.kind
        return (kind.tenant.key, kind.key, self.rank, self.number)  # type: ignore[union-attr]


class Lane:
    """All bids of one shape, so that if the first does not fit none does. `since` is when it was first passed over."""

    __slots__ = ("_bids", "_kinds", "_tenants", "count", "gang", "shapes", "since", "tokens", "tried")

    def __init__(self, shapes: tuple[Shape, ...], *, gang: bool) -> None:
        self.shapes = shapes
        self.gang = gang
        self.tokens = sum(shape[3] for shape in shapes)
        self.count = 0
        self.since: float | None = None
        self.tried = -1  # the state of the rooms in which this gang was found not to fit
        self._tenants: Turns[Party] = Turns()
        self._kinds: dict[Party, Turns[Party]] = {}
        self._bids: dict[Party, list[tuple[float, int, Bid]]] = {}

    def add(self, bid: Bid) -> None:
        kind = bid.kind
        tenant = kind.tenant
        assert tenant is not None
        self.count += 1
        heapq.heappush(self._bids.setdefault(kind, []), (bid.rank, bid.number, bid))
        kinds = self._kinds.get(tenant)
        if kinds is None:
            kinds = self._kinds[tenant] = Turns()
        kinds.put(kind)
        self._tenants.put(tenant)

    def fell(self, kind: Party) -> None:
        """The keys of a kind and of its tenant may have become smaller."""
        tenant = kind.tenant
        if tenant in self._kinds:
            assert tenant is not None
            self._tenants.put(tenant)
            if kind in self._bids:
                self._kinds[tenant].put(kind)

    def renew(self) -> None:
        """All keys may have changed."""
        self._tenants.renew()
        for kinds in self._kinds.values():
            kinds.renew()

    def first(self) -> Bid | None:
        """Whose turn it is; `None` when nobody waits who may begin."""
        while (tenant := self._tenants.first()) is not None:
            kinds = self._kinds[tenant]
            kind = kinds.first()
            if kind is None:
                self._tenants.drop(tenant)  # all of its kinds are barred: so is the tenant here, until one falls
                continue
            bids = self._bids[kind]
            while bids and not bids[0][2].waits:
                heapq.heappop(bids)
            if bids:
                return bids[0][2]
            del self._bids[kind]
            kinds.drop(kind)
            if not len(kinds):
                self._forget(tenant)
        return None

    def _forget(self, tenant: Party) -> None:
        self._tenants.drop(tenant)
        del self._kinds[tenant]
