"""What a queue knows and how it changes: leases, fences, delivery limits, delays and ageing, with time as a parameter.

Pure: no clock, no I/O, no asyncio, so that one and the same logic stands behind the queue in memory and under the
virtual clock of the simulation; any adapter may use it as it is. Times are seconds on any one clock that does not run
backwards.

Whoever is next: the item of least `rank`, which is `put_seconds - priority * ageing_seconds`. The rank never changes,
and still it ages: an item is overtaken only by what is put at most `ageing_seconds` later for each step of priority
between them, and never by what comes after that. Between kinds, the one with fewest leases out goes first.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic

from quintain.fleet._calendar import Calendar
from quintain.fleet._card import Card, Count, Full, Gone, Lease, Place, T, Terms

_COMPACT = 1024  # entries of a heap that may be stale before it is built anew


class _Kind:
    __slots__ = ("heap", "kept", "leased", "ready", "stopped")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, str]] = []  # (rank, number, id); entries may be stale
        self.kept = 0
        self.ready = 0
        self.leased = 0
        self.stopped = False


class Shelf(Generic[T]):
    """The items of a queue. Every method takes the present time and first lets leases and delays run out.

    `ack`, `nack`, `dead` and `extend` return whether the lease still stood; where it did not, nothing changes.
    """

    def __init__(self, terms: Terms | None = None, *, gone: Callable[[Gone], None] = lambda gone: None) -> None:
        self.terms = terms or Terms()
        self._gone = gone
        self._cards: dict[str, Card[T]] = {}
        self._kinds: dict[str, _Kind] = {}
        self._delayed: Calendar[tuple[float, int, str]] = Calendar()
        self._leased: Calendar[tuple[float, str, int]] = Calendar()
        self._number = 0
        self._counts = dict.fromkeys(Place, 0)

    def __len__(self) -> int:
        return len(self._cards)

    def __contains__(self, id: str) -> bool:
        return id in self._cards

    def room(self, kind: str) -> int:
        """How many items of a kind may still be put."""
        return self.terms.bound - self._kind(kind).kept

    @property
    def count(self) -> Count:
        """As of the last call with a time."""
        return Count(**{place.value: n for place, n in self._counts.items()})

    def put(
        self, id: str, body: T, *, at: float, kind: str = "", priority: int = 0, delay_seconds: float = 0.0,
    ) -> bool:
        """Add an item; `False` for an id that is kept already. Raises Full at the kind's bound."""
        self.tick(at)
        if id in self._cards:
            return False
        if self._kind(kind).kept >= self.terms.bound:
            raise Full(f"expected room for {id!r}, found a bound of {self.terms.bound} for kind {kind!r}")
        self._number += 1
        card = Card(id, body, kind, priority, at, self.terms.rank(at, priority), self._number)
        self._cards[id] = card
        self._kinds[kind].kept += 1
        self._enter(card)
        self._wait(card, at, delay_seconds)
        return True

    def lease(
        self, worker: str, *, at: float, seconds: float, most: int = 1, kinds: Collection[str] | None = None,
        fits: Callable[[Card[T]], bool] = lambda card: True,
    ) -> list[Lease[T]]:
        """Hand out up to `most` items of these kinds (`None`: of all), in order. Where the first of a kind does not
        fit, the kind is passed over: what is behind it must not starve it."""
        self.tick(at)
        found: list[Lease[T]] = []
        names = set(self._kinds if kinds is None else kinds)
        while len(found) < most:
            card = self._first(names, fits)
            if card is None:
                break
            found.append(self._hand(card, worker, at, seconds))
        return found

    def take(self, id: str, worker: str, *, at: float, seconds: float) -> Lease[T] | None:
        """Hand out this very item, as a planner chose it; `None` unless it is ready."""
        self.tick(at)
        card = self._cards.get(id)
        if card is None or card.place is not Place.READY or self._kinds[card.kind].stopped:
            return None
        return self._hand(card, worker, at, seconds)

    def extend(self, id: str, attempt: int, *, at: float, seconds: float) -> bool:
        """A heartbeat: the lease ends `seconds` from now, never sooner than it would have."""
        self.tick(at)
        card = self._held(id, attempt)
        if card is None:
            return False
        card.until_seconds = max(card.until_seconds, at + seconds)
        return True

    def extend_all(self, held: Iterable[tuple[str, int]], *, at: float, seconds: float) -> list[str]:
        """The heartbeat of a worker for all that it holds, as (id, attempt): the ids of those that it has lost."""
        self.tick(at)
        cards, leased, until, lost = self._cards, Place.LEASED, at + seconds, []
        for id, attempt in held:
            card = cards.get(id)
            if card is None or card.attempt != attempt or card.place is not leased:
                lost.append(id)
            elif card.until_seconds < until:
                card.until_seconds = until
        return lost

    def ack(self, id: str, attempt: int, *, at: float) -> bool:
        """It is done: the item leaves."""
        self.tick(at)
        card = self._held(id, attempt)
        if card is None:
            return False
        self._remove(card)
        return True

    def nack(
        self, id: str, attempt: int, *, at: float, delay_seconds: float = 0.0, reason: str = "", counts: bool = True,
    ) -> bool:
        """Give it back, to be handed out again after a delay; at the last delivery it is dead. A worker that leaves in
        good order gives back what it has not begun with `counts=False`: that was no delivery."""
        self.tick(at)
        card = self._held(id, attempt)
        if card is None:
            return False
        card.deliveries -= not counts
        self._give_back(card, at, delay_seconds, reason)
        return True

    def dead(self, id: str, attempt: int, *, at: float, reason: str) -> bool:
        """It will never do: keep it aside, with the reason."""
        self.tick(at)
        card = self._held(id, attempt)
        if card is None:
            return False
        self._bury(card, reason)
        return True

    def revive(self, id: str, *, at: float) -> bool:
        """Put a dead item back, with its deliveries before it. Its attempts go on where they were."""
        self.tick(at)
        card = self._cards.get(id)
        if card is None or card.place is not Place.DEAD:
            return False
        card.put_seconds, card.rank = at, self.terms.rank(at, card.priority)
        card.reason = ""
        card.deliveries = 0
        self._wait(card, at, 0.0)
        return True

    def drop(self, id: str) -> bool:
        """Forget an item, wherever it is: whoever holds a lease of it is refused from now on."""
        card = self._cards.get(id)
        if card is None:
            return False
        self._remove(card)
        return True

    def drain(self, *, kind: str | None = None, most: int | None = None) -> list[Card[T]]:
        """Take out everything that waits (of a kind), or `most` of it; what is leased or dead stays."""
        waiting = (
            card for card in self._cards.values()
            if card.place in (Place.READY, Place.DELAYED) and kind in (None, card.kind)
        )
        found = list(itertools.islice(waiting, most))
        for card in found:
            self._remove(card)
        return found

    def stop(self, kind: str) -> None:
        """Hand out no more of a kind. Its items stay, and its leases stand."""
        self._kind(kind).stopped = True

    def resume(self, kind: str) -> None:
        self._kind(kind).stopped = False

    def kinds(self) -> Collection[str]:
        """The kinds that were seen."""
        return self._kinds.keys()

    def is_stopped(self, kind: str) -> bool:
        return self._kind(kind).stopped

    def oldest(self, kind: str) -> float | None:
        """Since when the first ready item of a kind waits, in the order of handing out; None where none is ready."""
        found = self._kind(kind)
        return self._head(found).put_seconds if found.ready else None

    def peek(self, *, at: float, place: Place = Place.READY, most: int = 20) -> list[Card[T]]:
        """The first items of a place: ready ones in their order, others in the order of when they will leave it."""
        self.tick(at)
        cards = (card for card in self._cards.values() if card.place is place)
        order: Callable[[Card[T]], tuple[float, int]] = (
            (lambda card: (card.rank, card.number)) if place is Place.READY
            else (lambda card: (card.until_seconds, card.number))
        )
        return heapq.nsmallest(most, cards, key=order)

    def cards(self) -> Iterator[Card[T]]:
        yield from self._cards.values()

    def get(self, id: str) -> Card[T] | None:
        return self._cards.get(id)

    def counts(self) -> dict[str, Count]:
        """By kind. O(n): for people and tests."""
        found: dict[str, dict[Place, int]] = {}
        for card in self._cards.values():
            found.setdefault(card.kind, dict.fromkeys(Place, 0))[card.place] += 1
        return {kind: Count(**{place.value: n for place, n in counts.items()}) for kind, counts in found.items()}

    def next_seconds(self) -> float:
        """When `tick` may next have something to do; `inf` while nothing is leased or delayed."""
        return min(self._leased.due, self._delayed.due)

    def tick(self, at: float) -> None:
        """Let leases and delays run out; the `gone` of the constructor hears of each lease that did."""
        leased, delayed = self._leased, self._delayed
        if leased.due > at and delayed.due > at:
            return
        cards, held = self._cards, Place.LEASED
        while leased and leased.due <= at:
            _, id, attempt = leased.take()
            card = cards.get(id)
            if card is None or card.attempt != attempt or card.place is not held:
                continue
            if card.until_seconds > at:
                leased.add((card.until_seconds, id, attempt))
            else:
                worker = card.worker
                self._give_back(card, at, 0.0, f"lease of attempt {attempt} ran out on {worker}")
                self._gone(Gone(id=id, attempt=attempt, worker=worker, dead=card.place is Place.DEAD))
        while delayed and delayed.due <= at:
            _, number, id = delayed.take()
            waiting = self._cards.get(id)
            if waiting is not None and waiting.place is Place.DELAYED and waiting.number == number:
                self._shelve(waiting)

    def _kind(self, name: str) -> _Kind:
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind()
        return kind

    def _held(self, id: str, attempt: int) -> Card[T] | None:
        card = self._cards.get(id)
        return card if card is not None and card.place is Place.LEASED and card.attempt == attempt else None

    def _first(self, names: Iterable[str], fits: Callable[[Card[T]], bool]) -> Card[T] | None:
        best: tuple[int, float, int] | None = None
        found: Card[T] | None = None
        for name in names:
            kind = self._kinds.get(name)
            if kind is None or kind.stopped or not kind.ready:
                continue
            card = self._head(kind)
            key = (kind.leased, card.rank, card.number)
            if (best is None or key < best) and fits(card):
                best, found = key, card
        return found

    def _head(self, kind: _Kind) -> Card[T]:
        while True:
            _, number, id = kind.heap[0]
            card = self._cards.get(id)
            if card is not None and card.place is Place.READY and card.number == number:
                return card
            heapq.heappop(kind.heap)

    def _hand(self, card: Card[T], worker: str, at: float, seconds: float) -> Lease[T]:
        self._move(card, Place.LEASED)
        card.attempt += 1
        card.deliveries += 1
        card.worker = worker
        card.until_seconds = at + seconds
        self._leased.add((card.until_seconds, card.id, card.attempt))
        return Lease(
            id=card.id, attempt=card.attempt, worker=worker, until_seconds=card.until_seconds, kind=card.kind,
            body=card.body,
        )

    def _give_back(self, card: Card[T], at: float, delay_seconds: float, reason: str) -> None:
        if card.deliveries >= self.terms.deliveries:
            self._bury(card, f"delivery {card.deliveries} of {self.terms.deliveries}: {reason or 'given back'}")
            return
        card.reason = reason
        card.worker = ""
        self._wait(card, at, delay_seconds)

    def _bury(self, card: Card[T], reason: str) -> None:
        self._move(card, Place.DEAD)
        card.reason = reason
        card.worker = ""

    def _wait(self, card: Card[T], at: float, delay_seconds: float) -> None:
        if delay_seconds > 0.0:
            self._move(card, Place.DELAYED)
            card.until_seconds = at + delay_seconds
            self._delayed.add((card.until_seconds, card.number, card.id))
        else:
            self._shelve(card)

    def _shelve(self, card: Card[T]) -> None:
        self._move(card, Place.READY)
        kind = self._kinds[card.kind]
        heapq.heappush(kind.heap, (card.rank, card.number, card.id))
        if len(kind.heap) > _COMPACT + 2 * kind.ready:
            cards = (self._cards.get(id) for _, _, id in kind.heap)
            alive = {card.id: card for card in cards if card is not None and card.place is Place.READY}
            kind.heap = [(card.rank, card.number, card.id) for card in alive.values()]
            heapq.heapify(kind.heap)

    def _move(self, card: Card[T], place: Place) -> None:
        old = card.place
        if old is place:
            return
        kind = self._kinds[card.kind]
        if old is Place.READY:
            kind.ready -= 1
        elif old is Place.LEASED:
            kind.leased -= 1
        if place is Place.READY:
            kind.ready += 1
        elif place is Place.LEASED:
            kind.leased += 1
        self._counts[old] -= 1
        self._counts[place] += 1
        card.place = place

    def _enter(self, card: Card[T]) -> None:
        kind = self._kinds[card.kind]
        kind.ready += card.place is Place.READY
        kind.leased += card.place is Place.LEASED
        self._counts[card.place] += 1

    def _leave(self, card: Card[T]) -> None:
        kind = self._kinds[card.kind]
        kind.ready -= card.place is Place.READY
        kind.leased -= card.place is Place.LEASED
        self._counts[card.place] -= 1

    def _remove(self, card: Card[T]) -> None:
        self._leave(card)
        self._kinds[card.kind].kept -= 1
        del self._cards[card.id]
