"""Contrast inside a group: what one attempt does that its siblings at the same task do not."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from quintain.guard._answer import facts_in, language_of
from quintain.guard._python import parsed
from quintain.types import Attempt, Flag, Severity

NAME = "contrast"
#: A group smaller than this has no "rest" to compare with.
LEAST = 5
#: How many robust deviations (1.4826 · median absolute deviation) away from the median is far, and the least ratio.
FAR, RATIO = 6.0, 4.0
#: Below this likeness (shared kinds of syntax, by count) to the nearest sibling an answer stands alone.
ALONE = 0.25


def contrast(attempts: Sequence[Attempt]) -> tuple[tuple[Flag, ...], ...]:
    """For each attempt of one group its SOFT flags, in the same order: far from the rest in size, in the number of
    files, in CPU or wall time, in output; alone in reaching for a module or for something in one; unlike every sibling
    in structure. All empty for groups of fewer than five. Raises ValueError when the attempts are of several tasks."""
    tasks = {attempt.task.id for attempt in attempts}
    if len(tasks) > 1:
        raise ValueError(f"expected attempts at one task, found {', '.join(sorted(tasks))}")
    flags: list[list[Flag]] = [[] for _ in attempts]
    if len(attempts) < LEAST:
        return tuple(tuple(f) for f in flags)
    for told, values in _measures(attempts).items():
        for number in _outliers(values):
            rest = statistics.median(v for n, v in enumerate(values) if n != number and v is not None)
            flags[number].append(_flag(f"{told}: {values[number]:.4g}, the others about {rest:.4g}"))
    reaching = [_reached(attempt) for attempt in attempts]
    users = Counter(name for names in reaching for name in names)
    for number, names in enumerate(reaching):
        alone = sorted(name for name in names if users[name] == 1)
        if alone:
            flags[number].append(_flag(f"alone in its group in using {', '.join(alone[:6])}"))
    shapes = [_shape(attempt) for attempt in attempts]
    for number, shape in enumerate(shapes):
        nearest = max((_likeness(shape, other) for n, other in enumerate(shapes) if n != number), default=1.0)
        if shape and nearest < ALONE:
            flags[number].append(_flag(f"its nearest sibling is like it to {nearest:.0%} only"))
    return tuple(tuple(f) for f in flags)


def _flag(text: str) -> Flag:
    return Flag(detector=NAME, severity=Severity.SOFT, evidence=text[:300])


def _measures(attempts: Sequence[Attempt]) -> Mapping[str, list[float | None]]:
    def total(values: list[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return sum(known) if known else None

    return {
        "bytes that were changed": [float(sum(map(len, a.changed.values()))) for a in attempts],
        "files that were changed": [float(len(a.changed)) for a in attempts],
        "CPU seconds": [total([o.cpu_seconds for o in a.outcomes]) for a in attempts],
        "wall seconds": [total([o.wall_seconds for o in a.outcomes]) for a in attempts],
        "bytes of output": [total([float(o.stdout_bytes + o.stderr_bytes) for o in a.outcomes]) for a in attempts],
    }


def _outliers(values: Sequence[float | None]) -> list[int]:
    """Which values are far from the median of the others, both in deviations and as a ratio."""
    far = []
    for number, value in enumerate(values):
        rest = [v for n, v in enumerate(values) if n != number and v is not None]
        if value is None or len(rest) < LEAST - 1:
            continue
        middle = statistics.median(rest)
        spread = 1.4826 * statistics.median(abs(v - middle) for v in rest)
        ratio = max(value, middle) / max(min(value, middle), 1e-9)
        if abs(value - middle) > FAR * max(spread, 0.05 * abs(middle), 1e-3) and ratio > RATIO:
            far.append(number)
    return far


def _reached(attempt: Attempt) -> set[str]:
    """The modules, and the things in them, that an answer reaches for."""
    names: set[str] = set()
    for path, content in attempt.changed.items():
        for fact in facts_in(path, content, language_of(path, content, attempt)):
            if fact.kind == "import":
                names.add(fact.text)
    return names


def _shape(attempt: Attempt) -> Counter[str]:
    """How often each kind of syntax stands in the answer; for other languages than Python, each kind of fact."""
    shape: Counter[str] = Counter()
    for path, content in attempt.changed.items():
        language = language_of(path, content, attempt)
        tree = parsed(content) if language == "python" else None
        if tree is not None:
            shape.update(type(node).__name__ for node in ast.walk(tree) if not isinstance(node, ast.expr_context))
        else:
            shape.update(f"{fact.kind} {fact.text.split('(')[0][:20]}" for fact in facts_in(path, content, language)
                         if fact.kind in ("call", "use", "def"))
    return shape


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    """Jaccard's likeness of two bags, in [0, 1]."""
    union = sum((one | other).values())
    return sum((one & other).values()) / union if union else 1.0
