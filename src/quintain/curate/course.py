"""The curriculum: which tasks are asked next, by what can be learnt from them, and fairly. Pure; repeatable by seed.

A group of G siblings that all fail or all succeed teaches nothing (its advantages are zero) and costs as much as any.
So a task weighs what it can teach, p(1 - p) for a solved rate p, averaged over what is known of p: Beta counts that
forget, since the policy changes. Fairness bounds it: each task keeps a part of an even draw, so that a rate that was
misjudged is seen again; each kind keeps its share of the places; no source takes more than its own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec

from quintain.curate.shares import divide, systematic
from quintain.types import Group


class Rate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a task's solved rate: how many attempts were solved and how many were not, each fading."""

    solved: float = 0.0
    unsolved: float = 0.0

    def after(self, *, solved: int, unsolved: int, memory: float = 64.0) -> Rate:
        """With some more attempts. What lies `memory` attempts back counts for 1/e."""
        kept = 1.0 / (1.0 + 1.0 / memory) ** (solved + unsolved)
        return Rate(solved=self.solved * kept + solved, unsolved=self.unsolved * kept + unsolved)

    @property
    def mean(self) -> float:
        """The expected solved rate under a Beta(1,1) prior."""
        return (self.solved + 1.0) / (self.solved + self.unsolved + 2.0)

    @property
    def learnability(self) -> float:
        """The expected p(1 - p), in (0, 1/4]."""
        a, b = self.solved + 1.0, self.unsolved + 1.0
        return a * b / ((a + b) * (a + b + 1.0))

    def mixed(self, size: int) -> float:
        """The probability that a group of `size` has both a solved and an unsolved attempt, at the mean rate."""
        return float(1.0 - self.mean**size - (1.0 - self.mean) ** size)


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that may be drawn. `weight` is that of its standing (`curate.weight_of`): 1 when active."""

    task: str
    kind: str = "code"
    source: str = ""
    weight: float = 1.0
    rate: Rate = Rate()


class Fairness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`floor` is the part of an even draw that every active task keeps (a part of it on probation). `kinds` are the
    least shares of the places by kind; a kind of which there are fewer tasks than that gets them all. `source_at_most`
    is the largest share of one source among the places of each kind, kept as far as the others have tasks enough."""

    floor: float = 0.2
    kinds: dict[str, float] = {}
    source_at_most: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.floor <= 1.0 or not 0.0 < self.source_at_most <= 1.0:
            raise ValueError(f"expected floor in [0, 1] and source_at_most in (0, 1], found {self.floor:g} and "
                             f"{self.source_at_most:g}")
        if any(share < 0.0 for share in self.kinds.values()) or sum(self.kinds.values()) + self.floor > 1.0 + 1e-9:
            raise ValueError(f"expected the shares of kinds to be at least 0 and, with floor = {self.floor:g}, at most "
                             f"1 in all, found {self.kinds}")


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was drawn, and the probability with which: what an estimate over drawn tasks divides by."""

    task: str
    probability: float


def chances(places: Sequence[Place], *, size: int, fairness: Fairness | None = None) -> dict[str, float]:
    """The probability of each task to be among the next `size`; they add up to `size`, or to the number of tasks where
    that is smaller. Tasks without weight are left out. The order of `places` does not matter.

    Raises ValueError for a task that comes twice.
    """
    fairness = fairness or Fairness()
    known = sorted((place for place in places if place.weight > 0), key=lambda place: place.task)
    if len({place.task for place in known}) < len(known):
        raise ValueError("expected each task once")
    if not known:
        return {}
    count = float(min(size, len(known)))
    rows = {
        place.task: _Row(
            weight=place.weight * place.rate.learnability,
            lower=min(1.0, fairness.floor * min(1.0, place.weight) * count / len(known)), upper=1.0,
        )
        for place in known
    }
    kinds: dict[str, dict[str, list[str]]] = {}
    for place in known:
        kinds.setdefault(place.kind, {}).setdefault(place.source, []).append(place.task)
    tops = {
        kind: _sum([rows[task] for tasks in sources.values() for task in tasks],
                   least=fairness.kinds.get(kind, 0.0) * count)
        for kind, sources in kinds.items()
    }
    found: dict[str, float] = {}
    for kind, part in _divided(count, tops).items():
        sources = kinds[kind]
        cap = _cap(part, [len(tasks) for tasks in sources.values()], fairness.source_at_most * part)
        inner = {source: _sum([rows[task] for task in tasks], most=cap) for source, tasks in sources.items()}
        for source, smaller in _divided(part, inner).items():
            found |= _divided(smaller, {task: rows[task] for task in sources[source]})
    return found


def draw(
    places: Sequence[Place], *, size: int, seed: int, step: int, fairness: Fairness | None = None,
) -> tuple[Drawn, ...]:
    """The tasks of one step, each once, in an order that the seed decides; the same on every machine.

    Each is included with exactly its chance; of each kind as many as its chances add up to, rounded down or up.
    """
    found = chances(places, size=size, fairness=fairness)
    chance = random.Random(f"{seed}:{step}")
    kind_of = {place.task: (place.kind, place.source) for place in places}
    order = sorted(found)
    chance.shuffle(order)
    order.sort(key=lambda task: kind_of[task])
    drawn = [order[at] for at in systematic([found[task] for task in order], chance=chance)]
    chance.shuffle(drawn)
    return tuple(Drawn(task=task, probability=found[task]) for task in drawn)


def taught(rates: Mapping[str, Rate], group: Group, *, memory: float = 64.0) -> dict[str, Rate]:
    """The rates after a group came in. Attempts without a reward to train on are not counted."""
    paid = [e for e, reward in zip(group.episodes, group.rewards_G, strict=True) if reward is not None]
    solved = sum(episode.solved for episode in paid)
    rate = rates.get(group.task, Rate()).after(solved=solved, unsolved=len(paid) - solved, memory=memory)
    return {**rates, group.task: rate}


def is_flat(group: Group) -> bool:
    """Whether a group teaches nothing: fewer than two of its rewards are there, or all are the same."""
    known = [reward for reward in group.rewards_G if reward is not None]
    return len(known) < 2 or max(known) - min(known) < 1e-9


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    weight: float
    lower: float
    upper: float


def _sum(rows: Sequence[_Row], *, least: float = 0.0, most: float = float("inf")) -> _Row:
    """Several as one claimant. Its own bounds are kept as far as those of its members allow."""
    low, high = sum(row.lower for row in rows), sum(row.upper for row in rows)
    high = max(low, min(high, most))
    return _Row(weight=sum(row.weight for row in rows), lower=min(max(low, least), high), upper=high)


def _divided(places: float, rows: Mapping[str, _Row]) -> dict[str, float]:
    lower, upper = [row.lower for row in rows.values()], [row.upper for row in rows.values()]
    within = min(max(places, sum(lower)), sum(upper))  # rounding only: the bounds above were made of these
    parts = divide(within, weights=[row.weight for row in rows.values()], lower=lower, upper=upper)
    return dict(zip(rows, parts, strict=True))


def _cap(places: float, sizes: Sequence[int], cap: float) -> float:
    """The least number of places, not below `cap`, that a source must be allowed so that all can be filled."""
    if sum(min(size, cap) for size in sizes) >= places:
        return cap
    low, high = cap, float(max(sizes))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(min(size, middle) for size in sizes) >= places else (middle, high)
    return high
