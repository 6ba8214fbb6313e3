"""Two policies on the same tasks: the paired difference, and whether it is more than chance. Pure.

Tasks are redrawn in pairs (a paired bootstrap over tasks), so that hard and easy tasks cancel out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from quintain.evaluate.attempt import Attempted, Facts
from quintain.evaluate.intervals import Range
from quintain.evaluate.measures import UNITS, by_task, mean_to_solve
from quintain.types import TaskError

DRAWS = 10_000


class Gap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`second` minus `first` of one figure, over `tasks` pairs. `p` is the two-sided share of draws on the other side
    of zero; `signed` says that the 95 % interval excludes zero."""

    name: str
    first: float
    second: float
    gap: Range
    p: float
    tasks: int

    @property
    def signed(self) -> bool:
        return self.gap.low > 0 or self.gap.high < 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`better`, `worse` and `even` count tasks by which policy solved a larger share of its episodes; `to_solve` are
    compared on the tasks that both solved. `left_out` counts tasks that only one of them was asked."""

    first: str
    second: str
    completion: Gap
    better: int
    worse: int
    even: int
    to_solve: tuple[Gap, ...]
    left_out: int


def compare(
    first: Sequence[Attempted], second: Sequence[Attempted], *, names: tuple[str, str], seed: int = 0,
    draws: int = DRAWS,
) -> Comparison:
    """Raises TaskError for a task that is not the same in both, ValueError where they share none."""
    one, two = by_task(first), by_task(second)
    both = sorted(set(one) & set(two))
    if not both:
        raise ValueError(f"expected tasks that {names[0]} and {names[1]} were both asked, found none")
    for task in both:
        if one[task][0].task_version != two[task][0].task_version:
            raise TaskError(f"task {task}: expected one version in both, found {one[task][0].task_version[:12]} and "
                            f"{two[task][0].task_version[:12]}: the task was changed between the two")
    shares = [(_share(one[task]), _share(two[task])) for task in both]
    dearness = [
        gap for name, value_of in UNITS.items()
        if (gap := _dearness(name, value_of, [(one[task], two[task]) for task in both], seed, draws)) is not None]
    return Comparison(
        first=names[0], second=names[1], completion=_gap("completion", shares, seed, draws),
        better=sum(b > a for a, b in shares), worse=sum(b < a for a, b in shares),
        even=sum(a == b for a, b in shares), to_solve=tuple(dearness), left_out=len(set(one) ^ set(two)))


def _share(group: Sequence[Attempted]) -> float:
    return sum(one.solved for one in group) / len(group)


def _dearness(
    name: str, value_of: Callable[[Facts], float | None],
    pairs: Sequence[tuple[Sequence[Attempted], Sequence[Attempted]]], seed: int, draws: int,
) -> Gap | None:
    values = [(a, b) for one, two in pairs if (a := mean_to_solve(one, value_of)) is not None
              and (b := mean_to_solve(two, value_of)) is not None]
    return _gap(name, values, seed, draws) if values else None


def _gap(name: str, pairs: Sequence[tuple[float, float]], seed: int, draws: int) -> Gap:
    count = len(pairs)
    gaps = [b - a for a, b in pairs]
    dice = random.Random(f"{seed} {name}")
    means = sorted(sum(dice.choices(gaps, k=count)) / count for _ in range(draws))
    below, above = sum(mean <= 0 for mean in means), sum(mean >= 0 for mean in means)
    return Gap(
        name=name, first=sum(a for a, _ in pairs) / count, second=sum(b for _, b in pairs) / count, tasks=count,
        gap=Range(at=sum(gaps) / count, low=means[int(0.025 * draws)], high=means[min(draws - 1, int(0.975 * draws))]),
        p=min(1.0, 2 * (min(below, above) + 1) / (draws + 1)))
