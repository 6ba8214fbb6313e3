"""Unions of intervals: two are the same when they hold the same numbers, however they are cut."""

from __future__ import annotations

import re
from fractions import Fraction

from quintain.grade.mathnumber import Kind, Read

#: (low, closed, high, closed); None is infinity.
Span = tuple[Fraction | None, bool, Fraction | None, bool]


def merged(parts: tuple[Read, ...]) -> tuple[Span, ...] | None:
    """A union of intervals as disjoint ones in order, (low, closed, high, closed) each with None for infinity; None
    where an end is no plain number."""
    spans: list[Span] = []
    for part in parts:
        if part.kind not in (Kind.TUPLE, Kind.RANGE) or len(part.items) != 2:
            return None
        low, high = (_end(item) for item in part.items)
        if low is None or high is None:
            return None
        brackets = part.brackets or "()"
        spans.append((low[0], brackets[0] == "[", high[0], brackets[1] == "]"))
    spans.sort(key=lambda s: (s[0] is not None, s[0] or 0, not s[1]))
    whole: list[Span] = []
    for span in spans:
        last = whole[-1] if whole else None
        if last is not None and _touch(last, span):
            higher = max(last, span, key=lambda s: (s[2] is None, s[2] or 0, s[3]))
            whole[-1] = (last[0], last[1], higher[2], higher[3])
        else:
            whole.append(span)
    return tuple(whole)


def _touch(one: Span, other: Span) -> bool:
    if one[2] is None or other[0] is None:
        return True
    return other[0] < one[2] or (other[0] == one[2] and (one[3] or other[1]))


def _end(item: Read) -> tuple[Fraction | None] | None:
    """The end of an interval: a number, or infinity as (None,)."""
    if item.kind is Kind.NUMBER and not item.unit:
        return (item.value,)
    return (None,) if re.fullmatch(r"[+-]?\s*\\infty\s*", item.text) else None
