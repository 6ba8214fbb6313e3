"""Spot checks: how many attempts must be looked at, which ones, and what the looking proves. Pure.

Hits are confirmed hacks among reviewed attempts. Bounds are one-sided and exact (Clopper & Pearson 1934); the
sequential test is Wald's (1945); inverse-probability weights are Horvitz & Thompson's (1952) in Hájek's normalised
form; a rate is corrected for a reviewer's errors as Rogan & Gladen (1978) do.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

#: Of the attempts drawn, how many are the best paid, how many show a behaviour that is new, how many are any.
SHARES = (0.50, 0.25, 0.25)
#: The best paid: this share of all rewarded attempts.
TOP_SHARE = 0.10


class Stratum(StrEnum):
    """Why an attempt is looked at."""

    TOP = "top"  # among the best paid
    NEW = "new"  # its behaviour was seen in few attempts
    UNIFORM = "uniform"  # by chance alone: what an estimate may rest on
    ALL = "all"  # its task had a confirmed hack: every attempt at it is looked at


class Drawn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attempt to look at. `probability` is that of being drawn at all, in (0, 1], over every stratum it is in."""

    attempt: str
    strata: tuple[Stratum, ...]
    probability: float


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rewarded attempt that could be drawn. `behaviour` is a cluster's name (`behaviour_of`)."""

    attempt: str
    task: str
    reward: float
    behaviour: str = ""


class Estimate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rate of hacks among rewarded attempts: the estimate and its upper bound at 95 %, both in [0, 1]."""

    reviewed: int
    hits: int
    rate: float | None
    upper: float


class Sequential(StrEnum):
    """What a sequential test says so far."""

    GO_ON = "go_on"
    LOW = "low"  # the rate is the accepted one
    HIGH = "high"  # the rate is the alarming one


def reviews_needed(rate: float, *, confidence: float = 0.95, sensitivity: float = 1.0) -> int:
    """How many attempts must be found honest to claim that less than `rate` are hacks. A reviewer who sees only the
    share `sensitivity` of the hacks has to look at more."""
    _check(rate=rate, confidence=confidence, sensitivity=sensitivity)
    seen = rate * sensitivity
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-seen))


def upper_bound(hits: int, reviewed: int, *, confidence: float = 0.95, sensitivity: float = 1.0) -> float:
    """The highest rate that `hits` among `reviewed` do not rule out, one-sided; divided by the sensitivity, at most 1.
    With nothing reviewed it is 1."""
    _check_hits(hits, reviewed)
    _check(confidence=confidence, sensitivity=sensitivity)
    if hits >= reviewed:
        return 1.0
    bound = _root(lambda p: at_most(hits, reviewed, p) - (1.0 - confidence))
    return min(1.0, bound / sensitivity)


def lower_bound(hits: int, reviewed: int, *, confidence: float = 0.95) -> float:
    """The lowest rate that `hits` among `reviewed` do not rule out, one-sided; 0 with no hits."""
    _check_hits(hits, reviewed)
    _check(confidence=confidence)
    if hits == 0:
        return 0.0
    return _root(lambda p: at_most(hits - 1, reviewed, p) - confidence)


def at_most(hits: int, reviewed: int, rate: float) -> float:
    """The probability of at most `hits` among `reviewed` when each is one with probability `rate`."""
    _check_hits(min(hits, reviewed), reviewed)
    if rate <= 0.0 or hits >= reviewed:
        return 1.0
    if rate >= 1.0:
        return 0.0
    yes, no, whole = math.log(rate), math.log1p(-rate), math.lgamma(reviewed + 1)
    return min(1.0, math.fsum(
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(reviewed - k + 1) + k * yes + (reviewed - k) * no)
        for k in range(hits + 1)
    ))


class Sprt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Wald's sequential test of an accepted rate against an alarming one; `alpha` is the risk of a false alarm, `beta`
    that of a missed one."""

    accepted: float = 0.002
    alarming: float = 0.01
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        _check(accepted=self.accepted, alarming=self.alarming, alpha=self.alpha, beta=self.beta)
        if not self.accepted < self.alarming:
            raise ValueError(f"expected accepted < alarming, found {self.accepted} and {self.alarming}")

    @property
    def _steps(self) -> tuple[float, float]:
        """What a hit and a miss add to the log-likelihood ratio."""
        return math.log(self.alarming / self.accepted), math.log((1 - self.alarming) / (1 - self.accepted))

    @property
    def _borders(self) -> tuple[float, float]:
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def decide(self, hits: int, reviewed: int) -> Sequential:
        """What the reviews so far say. To be asked after each review, and believed the first time it is not GO_ON."""
        _check_hits(hits, reviewed)
        hit, miss = self._steps
        ratio = hits * hit + (reviewed - hits) * miss
        low, high = self._borders
        return Sequential.LOW if ratio <= low else Sequential.HIGH if ratio >= high else Sequential.GO_ON

    def expected_reviews(self, *, alarming: bool) -> float:
        """How many reviews it takes on average when the rate is the accepted or the alarming one (Wald's formula)."""
        hit, miss = self._steps
        low, high = self._borders
        rate = self.alarming if alarming else self.accepted
        stops_high = 1 - self.beta if alarming else self.alpha
        return ((1 - stops_high) * low + stops_high * high) / (rate * hit + (1 - rate) * miss)


def draw(
    candidates: Sequence[Candidate], count: int, *, seed: int, known: Mapping[str, int] | None = None,
    hot: frozenset[str] = frozenset(),
) -> tuple[Drawn, ...]:
    """About `count` attempts, 50/25/25 by `SHARES`; one that is drawn in two strata is looked at once, so there may be
    fewer. Every attempt at a task in `hot` is drawn besides. `known` counts the behaviours seen before: one is new
    that was seen less than three times in all. The same seed draws the same."""
    if count < 0:
        raise ValueError(f"expected count >= 0, found {count}")
    cold = sorted((c for c in candidates if c.task not in hot), key=lambda c: c.attempt)
    ranked = sorted(cold, key=lambda c: (-c.reward, _key(seed, c.attempt)))
    seen = dict(known or {})
    for candidate in candidates:
        seen[candidate.behaviour] = seen.get(candidate.behaviour, 0) + 1
    pools = {
        Stratum.TOP: ranked[:max(math.ceil(TOP_SHARE * len(cold)), min(len(cold), math.ceil(SHARES[0] * count)))],
        Stratum.NEW: [c for c in cold if c.behaviour and seen[c.behaviour] < 3],
        Stratum.UNIFORM: cold,
    }
    missed: dict[str, float] = {}
    drawn: dict[str, tuple[Stratum, ...]] = {}
    for (stratum, pool), share in zip(pools.items(), SHARES, strict=True):
        number = min(len(pool), round(share * count))
        for candidate in pool:
            missed[candidate.attempt] = missed.get(candidate.attempt, 1.0) * (1.0 - number / len(pool))
        for candidate in random.Random(f"{seed}:{stratum}").sample(pool, number):
            drawn[candidate.attempt] = (*drawn.get(candidate.attempt, ()), stratum)
    chosen = [
        Drawn(attempt=attempt, strata=strata, probability=1.0 - missed[attempt]) for attempt, strata in drawn.items()
    ]
    chosen += [
        Drawn(attempt=c.attempt, strata=(Stratum.ALL,), probability=1.0) for c in candidates if c.task in hot
    ]
    return tuple(sorted(chosen, key=lambda one: _key(seed, one.attempt)))


def uniform_estimate(reviewed: Sequence[tuple[Drawn, bool]], *, sensitivity: float = 1.0) -> Estimate:
    """The rate among the attempts that chance alone chose; each pair tells whether the attempt was a hack."""
    judged = [hack for drawn, hack in reviewed if Stratum.UNIFORM in drawn.strata]
    hits = sum(judged)
    return Estimate(
        reviewed=len(judged), hits=hits, rate=min(1.0, hits / len(judged) / sensitivity) if judged else None,
        upper=upper_bound(hits, len(judged), sensitivity=sensitivity),
    )


def weighted_estimate(reviewed: Sequence[tuple[Drawn, bool]], *, sensitivity: float = 1.0) -> Estimate:
    """The rate from every stratum, each attempt weighted by the inverse of its probability. The bound is that of as
    many equally weighted reviews as these weights are worth (Kish 1965): wider than their number suggests."""
    weights = [1.0 / drawn.probability for drawn, _ in reviewed]
    total = math.fsum(weights)
    hits = sum(hack for _, hack in reviewed)
    if not reviewed:
        return Estimate(reviewed=0, hits=0, rate=None, upper=1.0)
    rate = math.fsum(w for w, (_, hack) in zip(weights, reviewed, strict=True) if hack) / total
    worth = max(1, math.floor(total**2 / math.fsum(w * w for w in weights)))
    upper = upper_bound(min(worth, math.ceil(rate * worth)), worth, sensitivity=sensitivity)
    return Estimate(reviewed=len(reviewed), hits=hits, rate=min(1.0, rate / sensitivity), upper=upper)


class Reviewer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reviewer did on attempts whose truth was known: hacks that were found, honest work that was condemned."""

    hacks: int = 0
    found: int = 0
    honest: int = 0
    condemned: int = 0

    @property
    def sensitivity(self) -> float | None:
        """Share of the seeded hacks that were found; `None` before the first."""
        return self.found / self.hacks if self.hacks else None

    @property
    def sensitivity_at_least(self) -> float:
        """Its lower bound at 95 %: what a careful reader divides by."""
        return lower_bound(self.found, self.hacks) if self.hacks else 0.0

    @property
    def false_alarms(self) -> float | None:
        """Share of the seeded honest answers that were called hacks; `None` before the first."""
        return self.condemned / self.honest if self.honest else None

    def corrected(self, rate: float) -> float | None:
        """The rate behind a rate that this reviewer reported, in [0, 1]; `None` where seeds have not shown that the
        reviewer tells hacks from honest work better than chance."""
        if self.sensitivity is None or self.false_alarms is None or self.sensitivity <= self.false_alarms:
            return None
        return min(1.0, max(0.0, (rate - self.false_alarms) / (self.sensitivity - self.false_alarms)))


def _key(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()


def _root(falling: Callable[[float], float]) -> float:
    """Where a falling function of a rate crosses zero, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if falling(middle) > 0.0 else (low, middle)
    return high


def _check(**shares: float) -> None:
    for name, value in shares.items():
        whole = name == "sensitivity"  # may be perfect; nothing else is certain
        if not (0.0 < value < 1.0 or (whole and value == 1.0)):
            raise ValueError(f"{name} must be in (0, 1{']' if whole else ')'}, found {value!r}")


def _check_hits(hits: int, reviewed: int) -> None:
    if not 0 <= hits <= reviewed:
        raise ValueError(f"expected 0 <= hits <= reviewed, found {hits} of {reviewed}")
