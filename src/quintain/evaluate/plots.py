"""Plots as SVG: shares as bars with intervals, and how they go with a number. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from quintain.evaluate.intervals import Range

_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
_WIDTH, _LEFT, _ROW = 760, 240, 28
_HEIGHT, _TOP, _GUTTER = 340, 20, 220


def bars(rows: Sequence[tuple[str, Range]]) -> str:
    """One bar for each share in [0, 1], with its interval as a whisker."""
    height = _ROW * len(rows) + 40
    width = _WIDTH - _LEFT - 90

    def x(value: float) -> str:
        return f"{_LEFT + width * value:.1f}"

    parts = [_opened(height)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path d="M{x(tick)} 8V{height - 28}" stroke="#ddd"/>'
                     f'<text x="{x(tick)}" y="{height - 10}" text-anchor="middle">{tick:.0%}</text>')
    for number, (name, found) in enumerate(rows):
        y = 12 + _ROW * number
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(_short(name))}</text>'
            f'<rect x="{_LEFT}" y="{y}" width="{width * found.at:.1f}" height="16" fill="{_COLOURS[0]}" opacity=".7"/>'
            f'<path d="M{x(found.low)} {y + 8}H{x(found.high)}M{x(found.low)} {y + 3}v10M{x(found.high)} {y + 3}v10" '
            f'stroke="#222"/><text x="{_WIDTH - 80}" y="{y + 13}">{found.at:.1%}</text>')
    return "".join(parts) + "</svg>"


def curves(lines: Sequence[tuple[str, Sequence[tuple[int, Range]]]]) -> str:
    """Lines of shares over whole numbers from 1, each with its interval as a band."""
    last = max((k for _, points in lines for k, _ in points), default=1)
    right, bottom = _WIDTH - _GUTTER, _HEIGHT - 40

    def at(k: int, value: float) -> str:
        return f"{48 + (right - 48) * (k - 1) / max(1, last - 1):.1f} {bottom - (bottom - _TOP) * value:.1f}"

    parts = [_opened(_HEIGHT)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = at(1, tick).split()[1]
        parts.append(f'<path d="M48 {y}H{right}" stroke="#ddd"/><text x="42" y="{float(y) + 4:.1f}" '
                     f'text-anchor="end">{tick:.0%}</text>')
    for k in sorted({1, (1 + last) // 2, last}):
        parts.append(f'<text x="{at(k, 0).split()[0]}" y="{bottom + 18}" text-anchor="middle">{k}</text>')
    parts.append(f'<text x="{(48 + right) // 2}" y="{_HEIGHT - 4}" text-anchor="middle">attempts k</text>')
    for number, (name, points) in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        band = [at(k, r.high) for k, r in points] + [at(k, r.low) for k, r in reversed(points)]
        parts.append(
            f'<path d="M{"L".join(band)}Z" fill="{colour}" opacity=".12"/>'
            f'<path d="M{"L".join(at(k, r.at) for k, r in points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<path d="M{right + 12} {_TOP + 20 * number}h20" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{right + 38}" y="{_TOP + 4 + 20 * number}">{escape(_short(name, 28))}</text>')
    return "".join(parts) + "</svg>"


def _opened(height: int) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-size="12" '
            'font-family="sans-serif" role="img">')


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else "…" + text[1 - most:]
