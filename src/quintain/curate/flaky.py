"""How sure it is that a test is flaky, after how many trials that will be known, and which tests fail together. Pure.

Two measures, for two uses. The Beta(1,1) posterior P(f > 1 %) says which tests to look at more closely: cheap, quick,
and wrong often when it is asked after every verdict (a healthy test's first accident is enough). What quarantines is an
e-process against "fails in at most 0.1 % of runs": a mixture of bets on higher rates. Its value may be looked at after
every trial: by Ville's inequality a test that is healthy ever reaches 1/α with a probability of at most α (Ramdas et
al., "Game-theoretic statistics and safe anytime-valid inference", 2023). See docs/decisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

#: A test that fails more often than this on right answers is flaky; one at or below HEALTHY is not.
FLAKY = 0.01
HEALTHY = 0.001
#: P(f > FLAKY) above which a test is looked at more closely.
SUSPICION = 0.90
#: The probability that a healthy test is ever quarantined: 10,000 of them make one in a hundred.
FALSE_ALARM = 1e-6
#: The same for what the author's answer alone must say of a test that answers accuse.
CONTROL_ALARM = 0.05
#: The rates that the bets are on, each with an equal stake.
BETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: Tests of which at least this share of failures is common fail for one reason.
TOGETHER = 0.75


def suspicion(failures: int, trials: int, *, rate: float = FLAKY) -> float:
    """P(f > rate) under a Beta(1,1) prior, in [0, 1]: the probability of at most `failures` in `trials` + 1 at that
    rate. Raises ValueError for counts that cannot be."""
    if not 0 <= failures <= trials:
        raise ValueError(f"expected 0 <= failures <= trials, found {failures} of {trials}")
    return at_most(failures, trials + 1, rate)


def at_most(hits: int, trials: int, rate: float) -> float:
    """The probability of at most `hits` in `trials`, each with probability 0 < rate < 1."""
    if hits < 0:
        return 0.0
    if hits >= trials:
        return 1.0
    yes, no, whole = math.log(rate), math.log1p(-rate), math.lgamma(trials + 1)
    return min(1.0, math.fsum(
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * yes + (trials - k) * no)
        for k in range(hits + 1)
    ))


def log_evidence(failures: int, trials: int, *, healthy: float = HEALTHY, bets: Sequence[float] = BETS) -> float:
    """The natural logarithm of the e-value against f <= healthy; 0 where nothing was seen."""
    if not 0 <= failures <= trials:
        raise ValueError(f"expected 0 <= failures <= trials, found {failures} of {trials}")
    terms = [
        failures * math.log(bet / healthy) + (trials - failures) * (math.log1p(-bet) - math.log1p(-healthy))
        for bet in bets
    ]
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms) / len(bets))


def is_flaky(failures: int, trials: int, *, alpha: float = FALSE_ALARM) -> bool:
    """Whether the evidence has reached 1/alpha."""
    needed = -math.log(alpha)
    if failures * math.log(BETS[-1] / HEALTHY) < needed:  # the most that so many failures can say
        return False
    return log_evidence(failures, trials) >= needed


def promise(
    rate: float, share: float, *, horizon: int = 6_000, alpha: float = FALSE_ALARM,
) -> int | None:
    """After how many trials this share of the tests that fail at `rate` has been caught; `None`: beyond the horizon.

    The distribution of the first passage, exactly: the evidence rises at a failure only, so the k-th failure must come
    within a number of trials; the probability of each count of failures is carried from trial to trial.
    """
    deadlines = _deadlines(horizon, alpha)
    alive = [1.0]  # alive[k]: k failures so far, and not caught
    caught = 0.0
    for trial in range(1, horizon + 1):
        nexts = [0.0] * (len(alive) + 1)
        for k, mass in enumerate(alive):
            if mass < 1e-15:
                continue
            nexts[k] += mass * (1.0 - rate)
            if k + 1 < len(deadlines) and trial > deadlines[k + 1]:
                nexts[k + 1] += mass * rate
            elif k + 1 < len(deadlines):
                caught += mass * rate
        alive = nexts[:len(deadlines)]
        if caught >= share:
            return trial
    return None


def _deadlines(horizon: int, alpha: float) -> list[int]:
    """For k failures the largest number of trials at which they are enough (0: never), until that is the horizon."""
    found = [0]
    while found[-1] < horizon:
        k = len(found)
        low, high = max(k - 1, found[-1]), horizon
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if is_flaky(k, middle, alpha=alpha) else (low, middle - 1)
        found.append(low if low >= k and is_flaky(k, low, alpha=alpha) else 0)
    return found


def cluster(test: str, incidents: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The tests that fail with this one: of the failures of either, at least TOGETHER are common to both. Sorted, with
    itself."""
    seen = [frozenset(one) for one in incidents]
    with_it = [one for one in seen if test in one]
    others = frozenset().union(*with_it) if with_it else frozenset()
    joined = {test}
    for other in others - {test}:
        common = sum(other in one for one in with_it)
        either = len(with_it) + sum(other in one and test not in one for one in seen)
        if common >= TOGETHER * either:
            joined.add(other)
    return tuple(sorted(joined))
