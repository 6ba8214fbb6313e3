"""What a few noisy readings allow to be said: means and slopes with their 95 % confidence intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

#: Student's t, two-sided 95 %, by degrees of freedom 1..30.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
        2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


#: The same at 99 %.
_T99 = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
        2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750)


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate and where it lies, with 95 % confidence unless its maker says otherwise."""

    at: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0.0 or self.high < 0.0

    def minus(self, other: Interval) -> Interval:
        """The difference of two independent estimates."""
        half = math.hypot(self.high - self.at, other.high - other.at)
        at = self.at - other.at
        return Interval(at=at, low=at - half, high=at + half)


def mean_of(values: Sequence[float], *, surer: bool = False) -> Interval:
    """The mean of at least two readings, with 99 % confidence where `surer`. Raises ValueError for fewer."""
    if len(values) < 2:
        raise ValueError(f"expected at least 2 readings, found {len(values)}")
    half = _t(len(values) - 1, surer=surer) * statistics.stdev(values) / math.sqrt(len(values))
    at = statistics.fmean(values)
    return Interval(at=at, low=at - half, high=at + half)


def slope_of(xs: Sequence[float], ys: Sequence[float]) -> Interval:
    """The slope of the least-squares line through at least three points. Raises ValueError for fewer, or one x only."""
    count = len(xs)
    if count < 3 or len(set(xs)) < 2 or len(ys) != count:
        raise ValueError(f"expected at least 3 points with different x, found {count} and {len(ys)}")
    fit = statistics.linear_regression(xs, ys)
    rest = sum((y - fit.intercept - fit.slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    middle = statistics.fmean(xs)
    spread = sum((x - middle) ** 2 for x in xs)
    half = _t(count - 2) * math.sqrt(rest / (count - 2) / spread)
    return Interval(at=fit.slope, low=fit.slope - half, high=fit.slope + half)


def _t(freedom: int, *, surer: bool = False) -> float:
    table = _T99 if surer else _T95
    return table[freedom - 1] if freedom <= len(table) else table[-1]
