"""The meters of one process: numbers under declared names, whose labels cannot multiply without end."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from quintain.watch.metric import OTHER, Kind, Merge, Metric, clean_label
from quintain.watch.table import METRICS

_FOLDED = "quintain_labels_folded_total"
_REFUSED = "quintain_readings_refused_total"


class Series(msgspec.Struct, frozen=True, array_like=True):
    """One line of a metric. `value` is the sum of what was observed where `counts` (one for each bucket, the last
    without an end) make it a histogram."""

    metric: str
    labels: tuple[str, ...]
    value: float
    counts: tuple[int, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All meters at one moment, sorted."""

    series: tuple[Series, ...] = ()

    def value(self, metric: str, /, **labels: str) -> float:
        """The sum over all lines of a metric with these labels (0 where there is none): of a histogram, the number of
        readings. Raises KeyError for a metric or label that is not declared."""
        declared = METRICS[metric].label_names
        wanted = {declared.index(name) if name in declared else _no_label(metric, name): value
                  for name, value in labels.items()}
        return sum(
            sum(one.counts) if one.counts else one.value for one in self.series
            if one.metric == metric and all(one.labels[at] == value for at, value in wanted.items())
        )


class Meters:
    """Counts, sets and observes. Any number of threads may. A reading that is not finite, or would take from a counter,
    is refused and counted; a label's value that is one too many is folded into `other` and counted. Raises KeyError
    for a metric that is not declared, and ValueError for labels other than the declared ones."""

    def __init__(self, metrics: Mapping[str, Metric] = METRICS) -> None:
        self._metrics = metrics
        self._mutex = threading.Lock()
        self._numbers: dict[str, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[str, dict[tuple[str, ...], _Histogram]] = {}
        self._known: dict[tuple[str, str], set[str]] = {}
        self._folded: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}  # of known values only: bounded as they

    def add(self, metric: str, amount: float = 1.0, /, **labels: str) -> None:
        """To a counter, or to a gauge that goes up and down."""
        declared = self._declared(metric, labels)
        if declared.kind is Kind.HISTOGRAM:
            raise ValueError(f"{metric} is a histogram: expected observe, found add")
        with self._mutex:
            if not math.isfinite(amount) or (amount < 0 and declared.kind is Kind.COUNTER):
                self._refuse(metric)
                return
            lines = self._numbers.setdefault(metric, {})
            key = self._key(declared, labels)
            lines[key] = lines.get(key, 0.0) + amount

    def set(self, metric: str, value: float, /, **labels: str) -> None:
        declared = self._declared(metric, labels)
        if declared.kind is not Kind.GAUGE:
            raise ValueError(f"{metric} is a {declared.kind.value}: only a gauge can be set")
        with self._mutex:
            if not math.isfinite(value):
                self._refuse(metric)
                return
            self._numbers.setdefault(metric, {})[self._key(declared, labels)] = value

    def clear(self, metric: str) -> None:
        """Forget all lines of a gauge, before it is set anew from the whole."""
        self._declared(metric, None)
        with self._mutex:
            self._numbers.pop(metric, None)

    def observe(self, metric: str, value: float, /, **labels: str) -> None:
        declared = self._declared(metric, labels)
        if declared.kind is not Kind.HISTOGRAM:
            raise ValueError(f"{metric} is a {declared.kind.value}: only a histogram observes")
        with self._mutex:
            if not math.isfinite(value):
                self._refuse(metric)
                return
            found = self._histogram(declared, self._key(declared, labels))
            found.counts[bisect_left(declared.buckets, value)] += 1
            found.sum += value

    def take(self, snapshot: Snapshot, *, gauges: bool = True) -> None:
        """Take in what another process counted: counters and histograms are added, gauges as each declares. Lines of
        metrics that are not declared here, or with other labels or buckets (another version's), are passed over."""
        with self._mutex:
            for one in snapshot.series:
                declared = self._metrics.get(one.metric)
                if declared is None or len(one.labels) != len(declared.labels) or not math.isfinite(one.value):
                    continue
                key = self._key(declared, dict(zip(declared.label_names, one.labels, strict=True)))
                if declared.kind is Kind.HISTOGRAM:
                    if len(one.counts) == len(declared.buckets) + 1:
                        self._histogram(declared, key).add(one)
                elif declared.kind is Kind.COUNTER or gauges:
                    lines = self._numbers.setdefault(one.metric, {})
                    lines[key] = _together(declared, lines.get(key), one.value)

    def snapshot(self) -> Snapshot:
        with self._mutex:
            found = [Series(metric, key, value) for metric, lines in self._numbers.items()
                     for key, value in lines.items()]
            found += [Series(metric, key, one.sum, tuple(one.counts)) for metric, lines in self._histograms.items()
                      for key, one in lines.items()]
        return Snapshot(series=tuple(sorted(found, key=lambda one: (one.metric, one.labels))))

    def _declared(self, metric: str, labels: Mapping[str, str] | None) -> Metric:
        declared = self._metrics.get(metric)
        if declared is None:
            raise KeyError(f"expected a metric of quintain.watch.METRICS, found {metric!r}")
        if labels is not None and (len(labels) != len(declared.labels) or any(n not in labels for n in
                                                                              declared.label_names)):
            raise ValueError(f"{metric}: expected the labels {declared.label_names}, found {tuple(labels)}")
        return declared

    def _key(self, declared: Metric, labels: Mapping[str, str]) -> tuple[str, ...]:
        raw = tuple(labels[name] for name in declared.label_names)
        key = self._folded.get((declared.name, raw))
        if key is None:
            key, is_folded = self._fold(declared, raw)
            if is_folded:
                self._count(_FOLDED, declared.name)
            else:
                self._folded[declared.name, raw] = key
        return key

    def _fold(self, declared: Metric, raw: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        made = []
        is_folded = False
        for label, value in zip(declared.labels, raw, strict=True):
            value = clean_label(value)
            known = self._known.setdefault((declared.name, label.name), set(label.values))
            if value not in known and value != OTHER:
                if label.values or len(known) >= label.most:
                    value, is_folded = OTHER, True
                else:
                    known.add(value)
            made.append(value)
        return tuple(made), is_folded or tuple(made) != raw

    def _histogram(self, declared: Metric, key: tuple[str, ...]) -> _Histogram:
        lines = self._histograms.setdefault(declared.name, {})
        found = lines.get(key)
        if found is None:
            found = lines[key] = _Histogram(len(declared.buckets) + 1)
        return found

    def _refuse(self, metric: str) -> None:
        self._count(_REFUSED, metric)

    def _count(self, metric: str, about: str) -> None:
        lines = self._numbers.setdefault(metric, {})
        lines[about,] = lines.get((about,), 0.0) + 1


class _Histogram:
    __slots__ = ("counts", "sum")

    def __init__(self, size: int) -> None:
        self.counts = [0] * size
        self.sum = 0.0

    def add(self, other: Series) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.value


class Part(NamedTuple):
    """What one process says of itself. `began` tells it from one of the same name before it; of one that does not live
    any more the gauges say nothing."""

    name: str
    began: float
    snapshot: Snapshot
    lives: bool = True


class Merged:
    """The meters of several processes as one. What a process had counted is kept when another takes its name, so that
    no counter falls because somebody was started again."""

    def __init__(self) -> None:
        self._last: dict[str, Part] = {}
        self._gone = Meters()

    def of(self, parts: Iterable[Part], *own: Snapshot) -> Snapshot:
        """All together, with what this process counts itself."""
        heard = {part.name: part for part in parts}
        for name, last in tuple(self._last.items()):
            now = heard.get(name)
            if now is None or now.began != last.began:
                self._gone.take(last.snapshot, gauges=False)
                del self._last[name]
        self._last.update(heard)
        total = Meters()
        total.take(self._gone.snapshot())
        for snapshot in own:
            total.take(snapshot)
        for part in heard.values():
            total.take(part.snapshot, gauges=part.lives)
        return total.snapshot()


def _together(declared: Metric, mine: float | None, theirs: float) -> float:
    if mine is None:
        return theirs
    if declared.kind is Kind.COUNTER or declared.merge is Merge.SUM:
        return mine + theirs
    return max(mine, theirs) if declared.merge is Merge.MOST else min(mine, theirs)


def _no_label(metric: str, name: str) -> int:
    raise KeyError(f"{metric} has the labels {METRICS[metric].label_names}, found {name!r}")
