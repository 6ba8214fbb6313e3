"""Dividing a number of places among claimants, each within its bounds, and drawing by the result. Pure.

`divide` gives each its weight's part, cut to its bounds (x = clip(λw, lower, upper) with the λ that fills the places).
`systematic` draws so that each is included with exactly its share and none twice (Madow, "On the Theory of Systematic
Sampling", 1949): of any run of neighbours as many are drawn as their shares add up to, rounded down or up.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence

#: A claimant with less than this part of the largest weight has none.
_WEIGHTLESS = 1e-9
_CLOSE = 1e-12


def divide(places: float, *, weights: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> list[float]:
    """`places` in parts, in the order of the claimants. Where nobody with a weight has room left, the rest goes to the
    others evenly. Raises ValueError for bounds that cannot be kept: the sum of `lower` above `places`, that of `upper`
    below it, or a lower one above its upper."""
    if any(low > high + _CLOSE for low, high in zip(lower, upper, strict=True)):
        raise ValueError(f"expected each lower bound at most its upper one, found {list(lower)} and {list(upper)}")
    if sum(lower) > places + 1e-9 or sum(upper) < places - 1e-9:
        raise ValueError(f"expected {places:g} places between the sums of the bounds, found {sum(lower):g} and "
                         f"{sum(upper):g}")
    if any(weight < 0 or not math.isfinite(weight) for weight in weights):
        raise ValueError("expected weights of at least 0")
    top = max(weights, default=0.0)
    weights = [weight / top if weight > _WEIGHTLESS * top else 0.0 for weight in weights]
    part = _filled(places, weights, lower, upper)
    left = places - sum(part)
    if left > 1e-9:  # the weightless take what nobody else can
        part = _filled(places, [1.0 if weight == 0 else 0.0 for weight in weights], part, upper)
    return part


def _filled(places: float, weights: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> list[float]:
    """Clipped parts by the largest factor that does not give away more than there is."""
    def parts(factor: float) -> list[float]:
        return [
            min(max(factor * weight, low), high) for weight, low, high in zip(weights, lower, upper, strict=True)
        ]

    bends = sorted({
        bound / weight for weight, low, high in zip(weights, lower, upper, strict=True) if weight > 0
        for bound in (low, high)
    })
    if not bends or sum(parts(bends[-1])) <= places:
        return parts(bends[-1] if bends else 0.0)
    at = bisect_right(bends, places, key=lambda factor: sum(parts(factor)))  # the first bend that gives too much
    start = bends[at - 1] if at else 0.0
    low, high = sum(parts(start)), sum(parts(bends[at]))
    return parts(start + (bends[at] - start) * (places - low) / (high - low))


def systematic(shares: Sequence[float], *, chance: random.Random) -> list[int]:
    """The positions drawn: one random start, then one for each whole number that the running sum passes. Shares are
    in [0, 1]; as many are drawn as their sum, rounded down or up."""
    if any(not -_CLOSE <= share <= 1.0 + 1e-9 for share in shares):
        raise ValueError("expected shares in [0, 1]")
    total = math.fsum(shares)
    count = round(total) if abs(total - round(total)) < 1e-6 else None
    mark = chance.random()
    drawn: list[int] = []
    running = 0.0
    for position, share in enumerate(shares):
        running += share
        if running > mark and (count is None or len(drawn) < count):
            drawn.append(position)
            mark += 1.0
    if count is not None and len(drawn) < count:  # the last mark fell beyond the sum by rounding
        drawn.append(max(p for p in range(len(shares)) if p not in drawn and shares[p] > 0))
    return sorted(drawn)
