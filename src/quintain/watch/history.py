"""What meters showed lately: moments in a row, as far back as anybody looks. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from quintain.watch.meters import Series, Snapshot
from quintain.watch.metric import Kind
from quintain.watch.table import METRICS

#: So many moments are kept, whatever is asked: of a longer past every second one is forgotten.
MOMENTS = 4096

Lines = dict[tuple[str, ...], Series]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """`lines` are the readings as they were, by metric; `gained` is what each counter and histogram has gained since
    the history began, whatever was begun anew meanwhile."""

    at_seconds: float
    lines: dict[str, Lines]
    gained: dict[str, Lines]


class History:
    """Times may come from any clock. One that goes back is held still: the past is never rewritten."""

    def __init__(self, *, keep_seconds: float = 3600.0) -> None:
        self._keep_seconds = keep_seconds
        self._moments: list[Moment] = []
        self._times: list[float] = []

    def add(self, at_seconds: float, snapshot: Snapshot) -> float:
        """The time that it was taken as."""
        before = self.latest
        if before is not None:
            at_seconds = max(at_seconds, before.at_seconds)
        lines: dict[str, Lines] = {}
        for one in snapshot.series:
            lines.setdefault(one.metric, {})[one.labels] = one
        gained = {metric: _gains(metric, found, before) for metric, found in lines.items()
                  if METRICS[metric].kind is not Kind.GAUGE}
        if before is not None:
            for metric, kept in before.gained.items():
                gained[metric] = {**kept, **gained.get(metric, {})}
        self._moments.append(Moment(at_seconds=at_seconds, lines=lines, gained=gained))
        self._times.append(at_seconds)
        self._forget(at_seconds)
        return at_seconds

    @property
    def latest(self) -> Moment | None:
        return self._moments[-1] if self._moments else None

    def within(self, seconds: float) -> list[Moment]:
        """The moments of the last `seconds`, oldest first; see `edge`."""
        return self._moments[self._first(seconds):] if self._moments else []

    def edge(self, seconds: float) -> Moment | None:
        """The moment from which the last `seconds` are counted: the one before them if there is one so near that the
        span is not more than half as long again, else the first in them."""
        return self._moments[self._first(seconds)] if self._moments else None

    def __iter__(self) -> Iterator[Moment]:
        return iter(self._moments)

    def _first(self, seconds: float) -> int:
        since = self._times[-1] - seconds
        at = bisect_left(self._times, since)
        if at and self._times[at] > since and self._times[at - 1] >= since - seconds / 2:
            return at - 1
        return at

    def _forget(self, now: float) -> None:
        # one moment from before the window stays: what grew since is counted from it
        old = bisect_left(self._times, now - self._keep_seconds) - 1
        if old > 64:  # now and then, not each time
            del self._moments[:old], self._times[:old]
        if len(self._moments) > MOMENTS:
            half = MOMENTS // 2
            self._moments[:half] = self._moments[:half:2]
            self._times = [moment.at_seconds for moment in self._moments]


def growth(first: Moment, last: Moment, metric: str) -> Lines:
    """What counters or histograms gained between two moments, by their labels."""
    before = first.gained.get(metric, {})
    return {labels: _minus(now, before.get(labels)) for labels, now in last.gained.get(metric, {}).items()}


def _gains(metric: str, lines: Lines, before: Moment | None) -> Lines:
    """A line that was not there before began at 0; one that fell was begun anew, and counts from 0 again. What was
    there at the very first moment has gained nothing yet."""
    if before is None:
        return {labels: _minus(one, one) for labels, one in lines.items()}
    shown, gained = before.lines.get(metric, {}), before.gained.get(metric, {})
    found: Lines = {}
    for labels, now in lines.items():
        last = shown.get(labels)
        known = gained.get(labels)
        if last is not None and last == now and known is not None:
            found[labels] = known
            continue
        step = _minus(now, last)
        if (step.value < 0 and not now.counts) or any(count < 0 for count in step.counts):
            step = now
        found[labels] = step if known is None else _plus(known, step)
    return found


def _minus(one: Series, other: Series | None) -> Series:
    if other is None or len(other.counts) != len(one.counts):
        return one
    counts = tuple(a - b for a, b in zip(one.counts, other.counts, strict=True))
    return Series(one.metric, one.labels, one.value - other.value, counts)


def _plus(one: Series, other: Series) -> Series:
    if len(one.counts) != len(other.counts):
        return other
    counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
    return Series(one.metric, one.labels, one.value + other.value, counts)
