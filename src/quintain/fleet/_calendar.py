"""What is due when: entries in the order of their times, sorted day by day, so that a million cost little."""

from __future__ import annotations

import heapq
import math
from typing import Any, Generic, TypeVar

_DAYS = 16.0  # in a second; a power of two, so that a day's end is exact

E = TypeVar("E", bound=tuple[Any, ...])


class Calendar(Generic[E]):
    """Tuples that begin with a time in seconds, least first; they must be comparable, for equal times go by the rest.

    A calendar queue (Brown, CACM 31(10), 1988) with days of a sixteenth of a second: what one holds is sorted alone.
    """

    __slots__ = ("_days", "_far", "_near", "_until", "due")

    def __init__(self) -> None:
        self.due = math.inf  # the time of the first; `inf` where there is none
        self._near: list[E] = []  # a heap: all that is before `_until`; empty only where nothing is kept
        self._until = -math.inf
        self._far: dict[float, list[E]] = {}  # unsorted, by day
        self._days: list[float] = []  # a heap: those days

    def __bool__(self) -> bool:
        return bool(self._near)

    def add(self, entry: E) -> None:
        at: float = entry[0]
        if at < self._until:
            heapq.heappush(self._near, entry)
            if at < self.due:
                self.due = at
            return
        day = at * _DAYS // 1.0 if at < math.inf else at
        found = self._far.get(day)
        if found is not None:
            found.append(entry)
            return
        self._far[day] = [entry]
        heapq.heappush(self._days, day)
        if not self._near:
            self._turn()

    def take(self) -> E:
        """Remove the first. Raises IndexError where there is none."""
        entry = heapq.heappop(self._near)
        if self._near:
            self.due = self._near[0][0]
        else:
            self._turn()
        return entry

    def _turn(self) -> None:
        """Go on to the next day that holds anything."""
        if not self._days:
            self.due = math.inf
            return
        day = heapq.heappop(self._days)
        self._near = self._far.pop(day)
        self._until = (day + 1.0) / _DAYS
        heapq.heapify(self._near)
        self.due = self._near[0][0]
