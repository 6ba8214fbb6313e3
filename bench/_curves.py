"""Curves as an SVG file: thin lines for single runs, a thick one for their mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 236, 48, 52


class Curve(NamedTuple):
    """What a label means: one list of values in [0, 1] for each run, all of one length."""

    label: str
    colour: str
    runs: Sequence[Sequence[float]]
    dashed: bool = False

    @property
    def mean(self) -> list[float]:
        return [sum(values) / len(values) for values in zip(*self.runs, strict=True)]


def draw(path: Path, curves: Sequence[Curve], *, title: str, across: str, upwards: str, last: int) -> None:
    """Write the chart; `last` is the number at the right end of the horizontal axis, which begins at 0."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" fill="#333"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="26" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="18" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 18 {(TOP + HEIGHT - BOTTOM) / 2})">{escape(upwards)}</text>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.0%}</text>')
        x = LEFT + tick * (WIDTH - LEFT - RIGHT)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{round(tick * last)}</text>')
    for number, curve in enumerate(curves):
        dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
        parts += [f'<path d="{_path(run)}" fill="none" stroke="{curve.colour}" stroke-opacity="0.25"{dash}/>'
                  for run in curve.runs]
        parts.append(f'<path d="{_path(curve.mean)}" fill="none" stroke="{curve.colour}" stroke-width="2.5"{dash}/>')
        y = TOP + 14 + 24 * number
        parts.append(f'<path d="M{WIDTH - RIGHT + 16} {y}h26" stroke="{curve.colour}" stroke-width="2.5"{dash}/>'
                     f'<text x="{WIDTH - RIGHT + 50}" y="{y + 4}">{escape(curve.label)}</text>')
    path.write_text("\n".join([*parts, "</svg>", ""]))


def _y(value: float) -> float:
    return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM)


def _path(values: Sequence[float]) -> str:
    step = (WIDTH - LEFT - RIGHT) / max(1, len(values) - 1)
    points = (f"{LEFT + n * step:.1f} {_y(value):.1f}" for n, value in enumerate(values))
    return "M" + "L".join(points)
