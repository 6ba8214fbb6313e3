"""A scaling law as an SVG file: one panel for each measure, over the number of hosts on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT, GAP = 300, 250, 24
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 44, 48


class Panel(NamedTuple):
    """One measure: its values over the hosts, and what an ideal would be, if there is one (drawn dashed)."""

    title: str
    values: Sequence[float]
    ideal: Sequence[float] | None = None
    log: bool = False
    percent: bool = False


def draw(path: Path, hosts: Sequence[int], panels: Sequence[Panel], *, title: str) -> None:
    wide = len(panels) * (WIDTH + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {HEIGHT + 40}" font-family="sans-serif" '
        f'font-size="11" fill="#333"><rect width="{wide}" height="{HEIGHT + 40}" fill="#fff"/>',
        f'<text x="{GAP}" y="26" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({GAP + number * (WIDTH + GAP)} 36)">{_panel(hosts, panel)}</g>')
    path.write_text("\n".join([*parts, "</svg>", ""]))


def _panel(hosts: Sequence[int], panel: Panel) -> str:
    across = [math.log10(count) for count in hosts]
    ticks = _ticks(panel)
    low, high = (math.log10(ticks[0]), math.log10(ticks[-1])) if panel.log else (ticks[0], ticks[-1])

    def x(value: float) -> float:
        share = (value - across[0]) / (across[-1] - across[0] or 1.0)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        level = math.log10(max(value, ticks[0])) if panel.log else value
        return HEIGHT - BOTTOM - (level - low) / (high - low or 1.0) * (HEIGHT - TOP - BOTTOM)

    def line(values: Sequence[float]) -> str:
        return "M" + "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in zip(across, values, strict=True))

    parts = [f'<text x="{LEFT}" y="28" font-weight="bold">{escape(panel.title)}</text>']
    for tick in ticks:
        label = f"{tick:.0%}" if panel.percent else f"{tick:,g}"
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{label}</text>')
    for at, count in zip(across, hosts, strict=True):
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{count}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">hosts</text>')
    if panel.ideal is not None:
        parts.append(f'<path d="{line(panel.ideal)}" fill="none" stroke="#888" stroke-dasharray="5 4"/>')
    parts.append(f'<path d="{line(panel.values)}" fill="none" stroke="#1f77b4" stroke-width="2.5"/>')
    parts += [f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3" fill="#1f77b4"/>'
              for at, value in zip(across, panel.values, strict=True)]
    return "".join(parts)


def _ticks(panel: Panel) -> list[float]:
    if panel.percent:
        return [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    values = [*panel.values, *(panel.ideal or ())]
    if panel.log:
        first = math.floor(math.log10(min(values)))
        last = math.ceil(math.log10(max(values)))
        return [10.0**n for n in range(first, max(last, first + 1) + 1)]
    step = 10.0 ** math.floor(math.log10(max(values)))
    step = next(part for part in (step / 5, step / 2, step, 2 * step) if max(values) / part <= 6)
    return [n * step for n in range(math.ceil(max(values) / step) + 1)]
