"""Meters as text: the exposition format of Prometheus (0.0.4), and the table of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quintain.watch.meters import Series, Snapshot
from quintain.watch.metric import Kind, Metric
from quintain.watch.table import METRICS, SECTIONS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(snapshot: Snapshot, metrics: Mapping[str, Metric] = METRICS) -> str:
    """What Prometheus reads at `/metrics`; see
    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format."""
    lines: list[str] = []
    by_metric: dict[str, list[Series]] = {}
    for one in snapshot.series:
        by_metric.setdefault(one.metric, []).append(one)
    for name in sorted(by_metric):
        declared = metrics[name]
        lines.append(f"# HELP {name} {_escaped_help(declared.help)}")
        lines.append(f"# TYPE {name} {declared.kind.value}")
        for one in by_metric[name]:
            lines += _lines(declared, one)
    return "\n".join(lines) + "\n" if lines else ""


def metrics_table() -> str:
    """All metrics as Markdown, for docs/rooms/watch.md."""
    made: list[str] = []
    for section, metrics in SECTIONS.items():
        made += ["", f"**{section}**", "", "| name | kind | labels | what it tells |", "|---|---|---|---|"]
        made += [_row(metric) for metric in metrics]
    return "\n".join(made[1:]) + "\n"


def number(value: float) -> str:
    """As short as it can be read back."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _lines(declared: Metric, one: Series) -> Iterable[str]:
    pairs = [(name, value) for name, value in zip(declared.label_names, one.labels, strict=True)]
    if declared.kind is not Kind.HISTOGRAM:
        yield f"{one.metric}{_braces(pairs)} {number(one.value)}"
        return
    total = 0
    for bound, count in zip((*(number(b) for b in declared.buckets), "+Inf"), one.counts, strict=True):
        total += count
        yield f"{one.metric}_bucket{_braces([*pairs, ('le', bound)])} {total}"
    yield f"{one.metric}_sum{_braces(pairs)} {number(one.value)}"
    yield f"{one.metric}_count{_braces(pairs)} {total}"


def _braces(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label.name}`" + ("" if label.values else f" (≤ {label.most})") for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.help} |"
