"""What an expression comes to over a history: a number for each set of labels that it is asked by. Pure.

What was not measured has no number, and a comparison with nothing is not true.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

from quintain.watch.expression import Binary, Call, Number, Selector, Tree
from quintain.watch.history import History, Moment, growth
from quintain.watch.meters import Series
from quintain.watch.metric import Kind
from quintain.watch.table import METRICS

#: A number by the values of the labels that were asked by; the empty key is the one number without labels.
Vector = dict[tuple[str, ...], float]

_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}
_COMPARISON: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}


def evaluate(tree: Tree, history: History, by: Sequence[str] = ()) -> Vector:
    """Lines of a metric are added up by the labels `by`, as far as the metric has them all; one that lacks one of them
    has one number, which stands beside each. A comparison keeps what it is true of, with its left number."""
    return _value(tree, history, tuple(by))


def is_grouped(tree: Tree, by: Sequence[str]) -> bool:
    """Whether its numbers come by these labels, and are not the one number."""
    match tree:
        case Selector(metric=metric):
            return bool(by) and all(name in METRICS[metric].label_names for name in by)
        case Call(arguments=arguments):
            return any(is_grouped(one, by) for one in arguments)
        case Binary(left=left, right=right):
            return is_grouped(left, by) or is_grouped(right, by)
    return False


def _value(tree: Tree, history: History, by: tuple[str, ...]) -> Vector:
    match tree:
        case Number(value=value):
            return {(): value}
        case Selector():
            latest = history.latest
            return {} if latest is None else _added(tree, _lines(tree, latest), by, _reading)
        case Call(function="ratio", arguments=(above, below)):
            return _divided(_value(above, history, by), _value(below, history, by))
        case Call(function="absent", arguments=(Selector() as selector,)):
            latest = history.latest
            return {(): 1.0} if latest is None or not _lines(selector, latest) else {}
        case Call(function="quantile", arguments=(Number(value=q), Selector() as selector)):
            gained = _gained(selector, history)
            buckets = METRICS[selector.metric].buckets
            return _kept({key: quantile(q, buckets, counts)
                          for key, counts in _counts(selector, gained, by).items()})
        case Call(function=function, arguments=(Selector() as selector,)):
            return _windowed(function, selector, history, by)
        case Binary(sign=sign, left=left, right=right):
            return _joined(sign, _value(left, history, by), _value(right, history, by))
    raise AssertionError(tree)


def _windowed(function: str, selector: Selector, history: History, by: tuple[str, ...]) -> Vector:
    seconds = selector.window_seconds or 0.0
    if function in ("least", "most", "average", "change"):
        return _of_gauge(function, selector, history.within(seconds), by)
    first, last = history.edge(seconds), history.latest
    span = last.at_seconds - first.at_seconds if first is not None and last is not None else 0.0
    if span <= 0.0:
        return {}
    gained = _gained(selector, history)
    is_histogram = METRICS[selector.metric].kind is Kind.HISTOGRAM
    if function == "mean":
        sums = _added(selector, gained, by, lambda one: one.value)
        counts = _added(selector, gained, by, lambda one: float(sum(one.counts)))
        return _divided(sums, counts)
    total = _added(selector, gained, by, lambda one: float(sum(one.counts)) if is_histogram else one.value)
    return total if function == "increase" else {key: value / span for key, value in total.items()}


def _of_gauge(function: str, selector: Selector, moments: list[Moment], by: tuple[str, ...]) -> Vector:
    seen: dict[tuple[str, ...], list[float]] = {}
    for moment in moments:
        for key, value in _added(selector, _lines(selector, moment), by, _reading).items():
            seen.setdefault(key, []).append(value)
    match function:
        case "least":
            return {key: min(values) for key, values in seen.items()}
        case "most":
            return {key: max(values) for key, values in seen.items()}
        case "average":
            return {key: sum(values) / len(values) for key, values in seen.items()}
    return {key: values[-1] - values[0] for key, values in seen.items()}


def quantile(q: float, buckets: Sequence[float], counts: Sequence[int]) -> float | None:
    """As Prometheus has it: linear within a bucket; what lies beyond the last bound is that bound. `None`: no
    readings."""
    total = sum(counts)
    if not total:
        return None
    rank = q * total
    below = 0
    for at, count in enumerate(counts):
        if below + count >= rank and count:
            if at == len(buckets):
                return buckets[-1]
            low = buckets[at - 1] if at else min(0.0, buckets[0])
            return low + (buckets[at] - low) * (rank - below) / count
        below += count
    return buckets[-1]


def _gained(selector: Selector, history: History) -> Mapping[tuple[str, ...], Series]:
    first, last = history.edge(selector.window_seconds or 0.0), history.latest
    if first is None or last is None or first is last:
        return {}
    return _matching(selector, growth(first, last, selector.metric))


def _counts(
    selector: Selector, lines: Mapping[tuple[str, ...], Series], by: tuple[str, ...],
) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    at = _places(selector, by)
    for labels, one in lines.items():
        key = tuple(labels[nth] for nth in at)
        known = found.setdefault(key, [0] * len(one.counts))
        found[key] = [mine + theirs for mine, theirs in zip(known, one.counts, strict=True)]
    return found


def _lines(selector: Selector, moment: Moment) -> Mapping[tuple[str, ...], Series]:
    return _matching(selector, moment.lines.get(selector.metric, {}))


def _matching(
    selector: Selector, lines: Mapping[tuple[str, ...], Series],
) -> Mapping[tuple[str, ...], Series]:
    if not selector.matches:
        return lines
    names = METRICS[selector.metric].label_names
    wanted = [(names.index(label), value, is_equal) for label, value, is_equal in selector.matches]
    return {labels: one for labels, one in lines.items()
            if all((labels[at] == value) is is_equal for at, value, is_equal in wanted)}


def _places(selector: Selector, by: tuple[str, ...]) -> list[int]:
    names = METRICS[selector.metric].label_names
    return [names.index(name) for name in by] if by and all(name in names for name in by) else []


def _added(
    selector: Selector, lines: Mapping[tuple[str, ...], Series], by: tuple[str, ...], of: Callable[[Series], float],
) -> Vector:
    found: Vector = {}
    at = _places(selector, by)
    for labels, one in lines.items():
        key = tuple(labels[nth] for nth in at)
        found[key] = found.get(key, 0.0) + of(one)
    return found


def _reading(one: Series) -> float:
    return float(sum(one.counts)) if one.counts else one.value


def _divided(above: Vector, below: Vector) -> Vector:
    return _kept(_paired(above, below, lambda a, b: a / b if b else None))


def _joined(sign: str, left: Vector, right: Vector) -> Vector:
    if sign == "or":
        return {**right, **left} if () not in left or () not in right else left or right
    if sign == "and":
        return _kept(_paired(left, right, lambda a, b: a))
    if sign in _COMPARISON:
        holds = _COMPARISON[sign]
        return _kept(_paired(left, right, lambda a, b: a if holds(a, b) else None))
    if sign == "/":
        return _divided(left, right)
    of = _ARITHMETIC[sign]
    return _kept(_paired(left, right, lambda a, b: of(a, b)))


def _paired(
    left: Vector, right: Vector, of: Callable[[float, float], float | None],
) -> dict[tuple[str, ...], float | None]:
    """Number by number; one without labels stands beside each."""
    if set(left) == {()} and right:
        return {key: of(left[()], value) for key, value in right.items()}
    if set(right) == {()}:
        return {key: of(value, right[()]) for key, value in left.items()}
    return {key: of(value, right[key]) for key, value in left.items() if key in right}


def _kept(found: Mapping[tuple[str, ...], float | None]) -> Vector:
    return {key: value for key, value in found.items() if value is not None and math.isfinite(value)}
