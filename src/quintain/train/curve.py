"""The learning curve of a training: as a page that needs nothing else, and as rows of blocks for a terminal."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from quintain.train.loop import Row

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _LEFT, _TOP = 760, 360, 56, 40
_COLOURS = ("#1f77b4", "#2ca02c", "#d62728", "#9467bd", "#ff7f0e", "#8c564b")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Points (step, share in [0, 1]) under a name."""

    name: str
    points: tuple[tuple[int, float], ...]


def lines_of(rows: Sequence[Row]) -> tuple[Line, ...]:
    """What a curve shows: held-out tasks at the first attempt and within three, the same of other faults of what was
    practised on where those were evaluated, and the mean reward of the updates."""
    seen = [row for row in rows if row.held_out]
    found = [
        Line(name=name, points=tuple((row.step, row.held_out[key]) for row in seen if key in row.held_out))
        for name, key in (
            ("held out, first attempt", "pass_at_1"), ("held out, within three", "within_3"),
            ("practised, first attempt", "practised_pass_at_1"), ("practised, within three", "practised_within_3"))
    ]
    paid = [row for row in rows if "reward" in row.train]
    width = max(1, len(paid) // 60)
    means = [paid[n: n + width] for n in range(0, len(paid), width)]
    found.append(Line(name="reward in training", points=tuple(
        (part[-1].step, sum(row.train["reward"] for row in part) / len(part)) for part in means)))
    return tuple(line for line in found if line.points)


def spark_line(values: Sequence[float], *, width: int = 40, top: float = 1.0) -> str:
    """Values in [0, top] as one row of blocks, the latest at the right."""
    if not values:
        return ""
    if len(values) > width:
        step = len(values) / width
        values = [values[min(len(values) - 1, int((n + 1) * step) - 1)] for n in range(width)]
    last = len(_BLOCKS) - 1
    return "".join(_BLOCKS[max(0, min(last, round(value / top * last)))] for value in values)


def write_page(path: Path, lines: Sequence[Line], *, title: str, facts: Mapping[str, str] | None = None) -> None:
    """A page with the curve as SVG and a table of facts. Opens in any browser, offline."""
    rows = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in (facts or {}).items())
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font-family:sans-serif;margin:2em;max-width:50em}th{text-align:left;padding-right:1em}</style>"
        f"<h1>{html.escape(title)}</h1>{picture(lines)}<table>{rows}</table>\n", "utf-8")


def picture(lines: Sequence[Line]) -> str:
    """The curve as an SVG element."""
    last = max((step for line in lines for step, _ in line.points), default=1)
    right, bottom = _WIDTH - 210, _HEIGHT - 40

    def at(step: float, value: float) -> str:
        return f"{_LEFT + (right - _LEFT) * step / last:.1f} {bottom - (bottom - _TOP) * value:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-size="12" '
             'font-family="sans-serif">']
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = at(last * tick, tick).split()
        parts.append(f'<path d="M{_LEFT} {y}H{right}" stroke="#ddd"/>'
                     f'<text x="{_LEFT - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{tick:.0%}</text>'
                     f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{round(last * tick)}</text>')
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        way = "L".join(at(step, value) for step, value in line.points)
        low = _TOP + 20 * number
        parts.append(f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<path d="M{right + 12} {low}h20" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{right + 38}" y="{low + 4}">{html.escape(line.name)}</text>')
    parts.append(f'<text x="{(right + _LEFT) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">update</text></svg>')
    return "".join(parts)
