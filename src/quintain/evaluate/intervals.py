"""Figures with their uncertainty: shares over tasks, means over tasks, pass@k and pass^k. Pure.

Tasks are what a set is a sample of, so uncertainty is over tasks: several episodes of one task are one cluster
(Miller 2024, "Adding Error Bars to Evals", https://arxiv.org/abs/2411.00640).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import msgspec

#: Of the normal distribution, for 95 %.
Z = 1.959963984540054


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure and its 95 % interval."""

    at: float
    low: float
    high: float


def wilson(hits: float, total: float) -> Range:
    """A share and its interval by Wilson's score, which is honest at 0 and 1 too. Raises ValueError for no trials."""
    if not total > 0 or not 0 <= hits <= total:
        raise ValueError(f"expected 0 <= hits <= total and total > 0, found {hits} of {total}")
    share = hits / total
    middle = (share + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z / (1 + Z * Z / total) * math.sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    return Range(at=share, low=max(0.0, min(share, middle - half)), high=min(1.0, max(share, middle + half)))


def mean_share(shares_T: Sequence[float], sizes_T: Sequence[int]) -> Range:
    """The mean of a share in [0, 1] over tasks. `sizes_T` are the episodes behind each share: the interval is Wilson's
    for as many independent trials as the spread over tasks is worth, at least the tasks and at most the episodes.
    Raises ValueError where there is no task."""
    count = len(shares_T)
    if not count or len(sizes_T) != count:
        raise ValueError(f"expected one size for each of at least one task, found {count} and {len(sizes_T)}")
    mean = sum(shares_T) / count
    trials = float(count)
    if count > 1:
        variance = sum((share - mean) ** 2 for share in shares_T) / (count - 1) / count
        if variance > 0:
            trials = min(max(mean * (1 - mean) / variance, count), sum(sizes_T))
    bounds = wilson(mean * trials, trials)
    return Range(at=mean, low=bounds.low, high=bounds.high)


def bootstrap(
    values_T: Sequence[float], *, of: Callable[[Sequence[float]], float] | None = None, draws: int = 2000, seed: int = 0
) -> Range:
    """A statistic (default: the mean) of values, one a task, with its percentile interval over redrawn tasks; the same
    seed, the same interval. Raises ValueError for no values."""
    if not values_T:
        raise ValueError("expected at least one value, found none")
    statistic = of or (lambda values: sum(values) / len(values))
    dice = random.Random(seed)
    found = sorted(statistic(dice.choices(values_T, k=len(values_T))) for _ in range(draws))
    return Range(at=statistic(values_T), low=found[int(0.025 * draws)], high=found[min(draws - 1, int(0.975 * draws))])


def pass_any(episodes: int, solved: int, k: int) -> float:
    """pass@k of one task, without bias: the chance that at least one of k of its episodes is solved (Chen et al. 2021,
    https://arxiv.org/abs/2107.03374). Raises ValueError for a k beyond the episodes."""
    _check(episodes, solved, k)
    return 1.0 - math.comb(episodes - solved, k) / math.comb(episodes, k)


def pass_all(episodes: int, solved: int, k: int) -> float:
    """pass^k of one task, without bias: the chance that all of k of its episodes are solved (Yao et al. 2024,
    https://arxiv.org/abs/2406.12045). Raises ValueError for a k beyond the episodes."""
    _check(episodes, solved, k)
    return math.comb(solved, k) / math.comb(episodes, k)


def _check(episodes: int, solved: int, k: int) -> None:
    if not 0 <= solved <= episodes or not 1 <= k <= episodes:
        raise ValueError(f"expected 0 <= solved <= episodes, 1 <= k <= episodes, found {solved} of {episodes}, k={k}")
