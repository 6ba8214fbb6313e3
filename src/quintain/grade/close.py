"""When two numbers are the same within a tolerance; neither nan nor a strange tolerance slips through."""

from __future__ import annotations

import math

from quintain.types import TaskError


def close(found: float, wanted: float, *, tolerance: float) -> bool:
    """Whether |found - wanted| ≤ tolerance. Nan is the same as nothing, an infinity as itself only. Raises TaskError
    for a tolerance that is not finite or below 0: that is the task's mistake, whatever was found."""
    if not (math.isfinite(tolerance) and tolerance >= 0.0):
        raise TaskError(f"tolerance: expected a finite number of at least 0, found {tolerance}")
    if math.isinf(found) or math.isinf(wanted):
        return found == wanted
    return abs(found - wanted) <= tolerance  # with nan this is false: never write it as `not ... > tolerance`
