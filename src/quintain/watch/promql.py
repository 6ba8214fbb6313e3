"""The same alert rules for a Prometheus server: its language, and its rule files. Pure.

Functions translate one to one, but for two edges: Prometheus extrapolates `rate` to the ends of a window, and finds a
counter that appears with a value in it to have grown by nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from quintain.watch.evaluate import is_grouped
from quintain.watch.exposition import number
from quintain.watch.expression import Binary, Call, Number, Selector, Tree
from quintain.watch.metric import Kind
from quintain.watch.rules import Rule
from quintain.watch.table import METRICS

_OVER_TIME = {"least": "min", "most": "max", "average": "avg"}


def promql(tree: Tree, by: Sequence[str] = ()) -> str:
    """An expression in PromQL. Its result has the labels `by` and no other."""
    match tree:
        case Number(value=value):
            return number(value)
        case Selector():
            return _sum(tree, by, _selected(tree, "_count" if _is_histogram(tree) else ""))
        case Call(function="ratio", arguments=(above, below)):
            return f"({promql(above, by)} / {_matching(above, below, by)}({promql(below, by)} > 0))"
        case Call(function="absent", arguments=(Selector() as selector,)):
            return f"absent({_selected(selector, '_count' if _is_histogram(selector) else '')})"
        case Call(function="quantile", arguments=(Number(value=q), Selector() as selector)):
            labels = ", ".join(("le", *(by if is_grouped(selector, by) else ())))
            return f"histogram_quantile({number(q)}, sum by ({labels}) (increase({_selected(selector, '_bucket')})))"
        case Call(function="mean", arguments=(Selector() as selector,)):
            total = _sum(selector, by, f"increase({_selected(selector, '_sum')})")
            count = _sum(selector, by, f"increase({_selected(selector, '_count')})")
            return f"({total} / ({count} > 0))"
        case Call(function=function, arguments=(Selector() as selector,)):
            return _windowed(function, selector, by)
        case Binary(sign="and", left=left, right=right) if is_grouped(left, by) != is_grouped(right, by):
            first, second = (left, right) if is_grouped(left, by) else (right, left)  # the first one's labels stay
            return f"({promql(first, by)} and on() {promql(second, by)})"
        case Binary(sign="and" | "or" as sign, left=left, right=right):
            return f"({promql(left, by)} {sign} {promql(right, by)})"
        case Binary(sign=sign, left=left, right=right):
            return f"({promql(left, by)} {sign} {_matching(left, right, by)}{promql(right, by)})"
    raise AssertionError(tree)


def rule_file(rules: Sequence[Rule], *, group: str = "quintain") -> str:
    """YAML for `rule_files` of prometheus.yml (JSON strings are YAML strings). Suspending, pausing and draining stay
    with us: Prometheus only tells."""
    lines = ["# Written by `quintain alerts export`.", "groups:", f"  - name: {group}", "    rules:"]
    for rule in rules:
        told = rule.says
        for label in rule.by:
            told = told.replace("{" + label + "}", "{{ $labels." + label + " }}")
        told = told.replace("{value}", "{{ $value | humanize }}")
        told = told.replace("{share}", "{{ $value | humanizePercentage }}")
        lines += [
            f"      - alert: {_camel(rule.name)}", f"        expr: {json.dumps(promql(rule.tree, rule.by))}",
            f"        for: {_duration(rule.for_seconds)}",
            "        labels:", f"          severity: {rule.severity.value}",
            "        annotations:", f"          summary: {json.dumps(told or rule.name)}",
        ]
    return "\n".join(lines) + "\n"


def _windowed(function: str, selector: Selector, by: Sequence[str]) -> str:
    if function in _OVER_TIME:
        # of a sum of lines, as ours is: a subquery at the usual pace of scraping
        now = _sum(selector, by, _selected(selector, "", window=False))
        return f"{_OVER_TIME[function]}_over_time({now}[{_duration(selector.window_seconds or 0.0)}:15s])"
    if function == "change":
        return _sum(selector, by, f"delta({_selected(selector, '')})")
    ending = "_count" if _is_histogram(selector) else ""
    return _sum(selector, by, f"{function}({_selected(selector, ending)})")


def _matching(left: Tree, right: Tree, by: Sequence[str]) -> str:
    """How numbers that stand by labels meet the one number."""
    if isinstance(left, Number) or isinstance(right, Number):
        return ""
    sides = is_grouped(left, by), is_grouped(right, by)
    if sides == (True, False):
        return "on() group_left() "
    if sides == (False, True):
        return "on() group_right() "
    return ""


def _is_histogram(selector: Selector) -> bool:
    return METRICS[selector.metric].kind is Kind.HISTOGRAM


def _sum(selector: Selector, by: Sequence[str], inner: str) -> str:
    if not is_grouped(selector, by):
        return f"sum({inner})"
    return f"sum by ({', '.join(by)}) ({inner})"


def _selected(selector: Selector, ending: str, *, window: bool = True) -> str:
    matches = ", ".join(
        f"{label}{'=' if is_equal else '!='}{json.dumps(value)}" for label, value, is_equal in selector.matches)
    span = f"[{_duration(selector.window_seconds)}]" if window and selector.window_seconds is not None else ""
    return selector.metric + ending + (f"{{{matches}}}" if matches else "") + span


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0)):
        if seconds and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{round(seconds * 1000)}ms" if seconds else "0s"


def _camel(name: str) -> str:
    return "Quintain" + "".join(part.capitalize() for part in name.split("-"))
